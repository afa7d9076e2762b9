// Builds the pages of `assay ui` into the Python package, which ships them.
//
// Two programs come out of one source: modules with a chunk a page, for the server, and with
// `--mode static` one classic script, for pages that are opened as files, where browsers refuse
// to load modules.

import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin, type UserConfig } from "vite";

const TARGETS = ["chrome111", "firefox114", "safari16.4"];

/** A chunk is named for its page: `pages/lab/page.tsx` becomes `lab.js`. */
function chunkName(chunk: { name: string; facadeModuleId?: string | null }): string {
  const page = /pages\/([a-z-]+)\/page\.tsx/.exec(chunk.facadeModuleId ?? "")?.[1];
  return `${page ? `page-${page}` : chunk.name}.js`;
}

/** KaTeX names every font in three formats; browsers that run these pages read the first. */
const woff2Only: Plugin = {
  name: "woff2-only",
  enforce: "pre",
  transform: (code, id) =>
    /katex(\.min)?\.css/.test(id)
      ? code.replace(/,\s*url\([^)]*\)\s*format\(["'](?:woff|truetype)["']\)/g, "")
      : null,
};

export default defineConfig(({ mode }): UserConfig => {
  const isStatic = mode === "static";
  return {
    root: "app",
    base: "./",
    define: { "process.env.NODE_ENV": '"production"' },
    plugins: [react(), woff2Only],
    publicDir: false,
    build: {
      outDir: process.env["ASSAY_UI_ASSETS"] ?? "../../python/assay/ui/assets",
      emptyOutDir: !isStatic,
      target: TARGETS,
      assetsInlineLimit: 0,
      modulePreload: false,
      reportCompressedSize: false,
      cssCodeSplit: !isStatic,
      ...(isStatic
        ? {
            rollupOptions: {
              input: "app/src/main.tsx",
              output: {
                format: "iife",
                codeSplitting: false,
                entryFileNames: "static/app.js",
                // Fonts and pictures are those of the other program.
                assetFileNames: (asset) =>
                  asset.names.some((name) => name.endsWith(".css"))
                    ? "static/app.css"
                    : "[name][extname]",
              },
            },
          }
        : {
            rollupOptions: {
              output: {
                entryFileNames: "[name].js",
                chunkFileNames: chunkName,
                assetFileNames: "[name][extname]",
              },
            },
          }),
    },
  };
});

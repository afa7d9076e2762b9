// Builds the pages of `assay ui` into the Python package, which ships them: one classic script and its
// styles. Browsers refuse to load modules from files, where an exported site is opened, and the server
// sends the same script.

import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const TARGETS = ["chrome111", "firefox114", "safari16.4"];

/** KaTeX names every font in three formats; browsers that run these pages read the first. */
const woff2Only: Plugin = {
  name: "woff2-only",
  enforce: "pre",
  transform: (code, id) =>
    /katex(\.min)?\.css/.test(id)
      ? code.replace(/,\s*url\([^)]*\)\s*format\(["'](?:woff|truetype)["']\)/g, "")
      : null,
};

export default defineConfig({
  root: "app",
  base: "./",
  define: { "process.env.NODE_ENV": '"production"' },
  plugins: [react(), woff2Only],
  publicDir: false,
  build: {
    outDir: process.env["ASSAY_UI_ASSETS"] ?? "../../python/assay/ui/assets",
    emptyOutDir: true,
    target: TARGETS,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    cssCodeSplit: false,
    rollupOptions: {
      input: "app/src/main.tsx",
      output: {
        format: "iife",
        codeSplitting: false,
        entryFileNames: "app.js",
        assetFileNames: (asset) =>
          asset.names.some((name) => name.endsWith(".css")) ? "app.css" : "[name][extname]",
      },
    },
  },
});

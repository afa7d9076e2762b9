// Builds the page program and its styles into the Python package, which ships them.
//
// The first line of each file has a digest of the sources: a test without Node compares it.

import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = dirname(fileURLToPath(import.meta.url));
const root = dirname(web);
const target = process.argv[2] ?? join(root, "python/assay/observe/timeline/assets");

/** Digest of everything that the output depends on, in a fixed order. */
async function digest() {
  const sources = (await readdir(join(web, "src"))).sort().map((name) => `web/src/${name}`);
  const hash = createHash("sha256");
  for (const name of [
    ...sources,
    "python/assay/observe/timeline/palette.json",
    "web/build.mjs",
    "web/package-lock.json",
  ]) {
    const content = await readFile(join(root, name));
    hash.update(`${name}\n${content.length}\n`).update(content);
  }
  return hash.digest("hex");
}

const banner = `/* Built from web/ by "make web"; do not edit. Sources: ${await digest()} */`;
const shared = {
  absWorkingDir: web,
  bundle: true,
  charset: "ascii",
  legalComments: "none",
  logLevel: "warning",
  minify: true,
  target: ["chrome100", "firefox113", "safari16.4"],
  write: false,
};
await mkdir(target, { recursive: true });
for (const [entry, name, kind] of [
  ["src/page.ts", "timeline.js", "js"],
  ["src/style.css", "timeline.css", "css"],
]) {
  const options = { ...shared, entryPoints: [entry], banner: { [kind]: banner } };
  if (kind === "js") options.format = "iife";
  const [file] = (await build(options)).outputFiles;
  if (/<\/(script|style)/i.test(file.text)) throw new Error(`${name} would end its element`);
  await writeFile(join(target, name), file.text);
}

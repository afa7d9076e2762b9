// Builds the pages of `assay ui` twice, as modules and as one classic script, and notes in
// build.json what they were built from and how much each file takes on the wire.

import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "vite";
import { digest, filesBelow } from "./digest.mjs";

const web = dirname(fileURLToPath(import.meta.url));
const root = dirname(web);
const target = process.argv[2] ?? join(root, "python/assay/ui/assets");
/** Bytes that all files together may take, compressed. */
const BUDGET = 900_000;

process.chdir(web);
process.env.ASSAY_UI_ASSETS = target;
await build({ logLevel: "error" });
await build({ logLevel: "error", mode: "static" });

const sources = await digest(root, [
  ...(await filesBelow(root, "web/app")),
  ...(await filesBelow(root, "web/src")),
  "python/assay/observe/timeline/palette.json",
  "web/build-app.mjs",
  "web/digest.mjs",
  "web/package-lock.json",
  "web/vite.config.ts",
]);
const gzip = {};
for (const name of await filesBelow(target, ".")) {
  if (name === "build.json") continue;
  gzip[name] = gzipSync(await readFile(join(target, name)), { level: 9 }).length;
}
// A site loads the modules or the classic script, and fonts in either case.
const total = Object.entries(gzip)
  .filter(([name]) => !name.startsWith("static/"))
  .reduce((sum, [, size]) => sum + size, 0);
const record = { note: "Built from web/app by make web; do not edit.", sources, total, gzip };
await writeFile(join(target, "build.json"), `${JSON.stringify(record, null, 2)}\n`);
for (const [name, size] of Object.entries(gzip).sort((one, other) => other[1] - one[1])) {
  console.log(`${String(size).padStart(9)}  ${name}`);
}
console.log(`${String(total).padStart(9)}  bytes in all of the ${BUDGET} allowed, compressed`);
if (total > BUDGET) throw new Error(`the pages take ${total} bytes compressed: expected ${BUDGET}`);

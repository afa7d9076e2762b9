// Builds the pages of `assay ui`: the script and its styles, and the evaluator of tapes, which is a crate
// built for WebAssembly. build.json notes what they were built from and what each file takes on the wire.

import { spawnSync } from "node:child_process";
import { copyFile, readFile, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
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

/** Build the evaluator and return its file. Paths of this machine stay out of it. */
function buildEvaluator() {
  const output = process.env.CARGO_TARGET_DIR ?? join(root, "target");
  const triple = "wasm32-unknown-unknown";
  const cargo = process.env.CARGO_HOME ?? join(homedir(), ".cargo");
  const flags = [
    "-Ctarget-feature=+simd128",
    `--remap-path-prefix=${root}=.`,
    `--remap-path-prefix=${cargo}=cargo`,
  ];
  const words = ["build", "--release", "--locked", "--target", triple];
  const done = spawnSync("cargo", words, {
    cwd: join(root, "crates/assay-tape-wasm"),
    env: { ...process.env, CARGO_TARGET_DIR: output, RUSTFLAGS: flags.join(" ") },
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (done.status !== 0) {
    throw new Error(`cargo failed; the target is installed by: rustup target add ${triple}`);
  }
  return join(output, triple, "release/assay_tape_wasm.wasm");
}

const evaluator = buildEvaluator();
process.chdir(web);
process.env.ASSAY_UI_ASSETS = target;
await build({ logLevel: "error" });
await copyFile("app/index.html", join(target, "index.html"));
await copyFile("app/src/design/icon.svg", join(target, "icon.svg"));
await copyFile(evaluator, join(target, "assay_tape.wasm"));

const sources = await digest(root, [
  "crates/assay-tape-wasm/Cargo.lock",
  "crates/assay-tape-wasm/Cargo.toml",
  ...(await filesBelow(root, "crates/assay-tape-wasm/src")),
  ...(await filesBelow(root, "crates/assay-tape/src")),
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
const total = Object.values(gzip).reduce((sum, size) => sum + size, 0);
const record = { note: "Built from web/app by make web; do not edit.", sources, total, gzip };
await writeFile(join(target, "build.json"), `${JSON.stringify(record, null, 2)}\n`);
for (const [name, size] of Object.entries(gzip).sort((one, other) => other[1] - one[1])) {
  console.log(`${String(size).padStart(9)}  ${name}`);
}
console.log(`${String(total).padStart(9)}  bytes in all of the ${BUDGET} allowed, compressed`);
if (total > BUDGET) throw new Error(`the pages take ${total} bytes compressed: expected ${BUDGET}`);

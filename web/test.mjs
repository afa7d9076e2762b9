// Bundles each test and runs it with Node's test runner.

import { spawnSync } from "node:child_process";
import { readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = dirname(fileURLToPath(import.meta.url));
const output = join(web, ".test");
const names = (await readdir(join(web, "tests"))).filter((name) => name.endsWith(".test.ts"));
await rm(output, { recursive: true, force: true });
await build({
  absWorkingDir: web,
  entryPoints: names.map((name) => `tests/${name}`),
  outdir: output,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  format: "esm",
  platform: "node",
  packages: "external",
  sourcemap: "inline",
  logLevel: "warning",
});
const files = names.map((name) => join(output, name.replace(/\.ts$/, ".mjs")));
process.exitCode = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" }).status;

// Digests of sources, which tests without Node compute again.

import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

/** Names of the files below a folder, relative to `root`, in a fixed order. */
export async function filesBelow(root, folder) {
  const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .sort();
}

/** SHA-256 over names, sizes and contents. */
export async function digest(root, names) {
  const hash = createHash("sha256");
  for (const name of names) {
    const content = await readFile(join(root, name));
    hash.update(`${name}\n${content.length}\n`).update(content);
  }
  return hash.digest("hex");
}

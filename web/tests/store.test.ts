import assert from "node:assert/strict";
import { test } from "node:test";
import { sizeText } from "../app/src/pages/store/size-text";

test("sizes are those of the command line", () => {
  assert.equal(sizeText(null), "-");
  assert.equal(sizeText(0), "0 B");
  assert.equal(sizeText(999), "999 B");
  assert.equal(sizeText(1_500_000), "1.5 MB");
  assert.equal(sizeText(3e15), "3000.0 TB");
});

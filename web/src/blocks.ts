// Blocks of compressed bytes: where the data of a timeline comes from.

/** Gives the content of a named block, inflated; rejects where there is no such block. */
export type Blocks = (name: string) => Promise<Uint8Array>;

/** Blocks that a page holds as base64 in elements `script[data-block]`. */
export function documentBlocks(root: ParentNode): Blocks {
  return async (name) => {
    const element = root.querySelector(`script[data-block="${CSS.escape(name)}"]`);
    if (!element) throw new Error(`the page has no block "${name}"`);
    return inflate(fromBase64(element.textContent ?? ""));
  };
}

/** Bytes of base64 text. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

/** Inflate a zlib stream with the browser's own decoder. */
export async function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

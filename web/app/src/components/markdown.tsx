// Markdown as elements of React: headings, lists, tables, code, links, emphasis. HTML in the text
// stays text, so that nothing in a document can run.

import { Fragment, type ReactNode } from "react";

const INLINE = /(`[^`]+`)|(\*\*[^*]+\*\*)|(\*[^*\s][^*]*\*)|(!?\[[^\]]*\]\([^)\s]+\))/;
const LINK = /^(!?)\[([^\]]*)\]\(([^)\s]+)\)$/;

/** Where a link of a document leads; null where it leads out of the documentation. */
export type Links = (target: string) => string | null;

function inline(text: string, links: Links): ReactNode {
  const parts = text.split(INLINE).filter((part) => part !== undefined && part !== "");
  return parts.map((part, place) => {
    const key = `${place}`;
    if (part.startsWith("`")) return <code key={key}>{part.slice(1, -1)}</code>;
    if (part.startsWith("**")) return <strong key={key}>{inline(part.slice(2, -2), links)}</strong>;
    const link = LINK.exec(part);
    if (link) {
      const [, picture, words = "", target = ""] = link;
      const address = links(target);
      if (picture || address === null) return <Fragment key={key}>{words}</Fragment>;
      const isOutside = /^https?:/.test(address);
      return (
        <a key={key} href={address} {...(isOutside ? { rel: "noreferrer", target: "_blank" } : {})}>
          {inline(words, links)}
        </a>
      );
    }
    if (/^\*[^*]/.test(part) && part.endsWith("*")) {
      return <em key={key}>{inline(part.slice(1, -1), links)}</em>;
    }
    return <Fragment key={key}>{part}</Fragment>;
  });
}

interface Block {
  readonly kind: "heading" | "code" | "list" | "numbers" | "table" | "quote" | "text";
  readonly lines: readonly string[];
  readonly level?: number;
}

const KINDS: readonly (readonly [Block["kind"], RegExp])[] = [
  ["list", /^[-*] /],
  ["numbers", /^\d+\. /],
  ["table", /^\|/],
  ["quote", /^> ?/],
];

function blocksOf(text: string): Block[] {
  const found: Block[] = [];
  const lines = text.split("\n");
  let at = 0;
  while (at < lines.length) {
    const line = lines[at]!;
    if (!line.trim()) {
      at++;
      continue;
    }
    if (line.startsWith("```")) {
      const end = lines.findIndex((one, place) => place > at && one.startsWith("```"));
      const stop = end < 0 ? lines.length : end;
      found.push({ kind: "code", lines: lines.slice(at + 1, stop) });
      at = stop + 1;
      continue;
    }
    const heading = /^(#{1,4}) (.*)$/.exec(line);
    if (heading) {
      found.push({ kind: "heading", level: heading[1]!.length, lines: [heading[2]!] });
      at++;
      continue;
    }
    const kind = KINDS.find(([, start]) => start.test(line))?.[0] ?? "text";
    const start = at;
    at++;
    while (at < lines.length && lines[at]!.trim() && !/^(#{1,4} |```)/.test(lines[at]!)) {
      if (kind === "table" && !lines[at]!.startsWith("|")) break;
      if (kind === "text" && KINDS.some(([, begins]) => begins.test(lines[at]!))) break;
      at++;
    }
    found.push({ kind, lines: lines.slice(start, at) });
  }
  return found;
}

/** Items of a list; a line that does not begin one continues the item before it. */
function itemsOf(lines: readonly string[], start: RegExp): string[] {
  const items: string[] = [];
  for (const line of lines) {
    if (start.test(line.trimStart())) items.push(line.trimStart().replace(start, ""));
    else if (items.length) items[items.length - 1] += ` ${line.trim()}`;
  }
  return items;
}

function cellsOf(line: string): string[] {
  return line
    .replace(/^\||\|\s*$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function TableBlock(props: { readonly lines: readonly string[]; readonly links: Links }) {
  const [head = "", , ...rows] = props.lines;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard.
    <section className="table-scroll" aria-label="Table" tabIndex={0}>
      <table className="table">
        <thead>
          <tr>
            {cellsOf(head).map((cell, place) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: cells have no other identity.
              <th key={place} scope="col">
                {inline(cell, props.links)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows have no other identity.
            <tr key={at}>
              {cellsOf(row).map((cell, place) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: cells have no other identity.
                <td key={place}>{inline(cell, props.links)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function BlockView(props: { readonly block: Block; readonly links: Links }) {
  const { block, links } = props;
  const { lines } = block;
  switch (block.kind) {
    case "heading": {
      const Tag = (["h1", "h2", "h3", "h3"] as const)[(block.level ?? 1) - 1] ?? "h3";
      return <Tag>{inline(lines[0] ?? "", links)}</Tag>;
    }
    case "code":
      return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard.
        <pre tabIndex={0}>{lines.join("\n")}</pre>
      );
    case "list":
    case "numbers": {
      const List = block.kind === "list" ? "ul" : "ol";
      const items = itemsOf(lines, block.kind === "list" ? /^[-*] / : /^\d+\. /);
      return (
        <List>
          {items.map((item, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: items have no other identity.
            <li key={at}>{inline(item, links)}</li>
          ))}
        </List>
      );
    }
    case "table":
      return <TableBlock lines={lines} links={links} />;
    case "quote":
      return <blockquote>{inline(lines.join(" ").replace(/^> ?| > ?/g, " "), links)}</blockquote>;
    default:
      return <p>{inline(lines.join(" "), links)}</p>;
  }
}

export function Markdown(props: { readonly text: string; readonly links: Links }) {
  return (
    <div className="markdown">
      {blocksOf(props.text).map((block, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: blocks have no other identity.
        <BlockView key={at} block={block} links={props.links} />
      ))}
    </div>
  );
}

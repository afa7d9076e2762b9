import { type Column, Table } from "../../components/table";
import { Tag } from "../../components/tag";
import { href } from "../../shell/route";
import { ratioText, verdictTone, when } from "../runs/words";
import { sizeText } from "./size-text";
import type { StoredItem } from "./types";

const COLUMNS: readonly Column<StoredItem>[] = [
  {
    name: "item",
    title: "Item",
    key: (item) => item.item,
    cell: (item) => (
      <>
        <code>{item.item}</code>
        <div className="muted small">
          version {item.manifest.slice(0, 8)} <code>assay store pull {item.item}</code>
        </div>
      </>
    ),
  },
  {
    name: "made",
    title: "Made (UTC)",
    key: (item) => item.created_at,
    cell: (item) => (
      <>
        {when(item.created_at)}
        {item.pushed_by && <div className="muted small">pushed by {item.pushed_by}</div>}
      </>
    ),
  },
  {
    name: "about",
    title: "About",
    key: (item) => item.model,
    cell: (item) => (
      <>
        {item.model ?? "-"}
        <div className="muted small">
          {[item.workload, item.engine, item.accelerator].filter(Boolean).join(" \u00b7 ")}
        </div>
      </>
    ),
  },
  {
    name: "outcome",
    title: "Outcome",
    key: (item) => item.verdict,
    cell: (item) =>
      item.verdict ? <Tag tone={verdictTone(item.verdict)}>{item.verdict}</Tag> : "-",
  },
  {
    name: "ratio",
    title: "Gain",
    isNumber: true,
    key: (item) => item.ratio?.value ?? null,
    cell: (item) => (
      <>
        <strong>{ratioText(item.ratio, 2)}</strong>
        {item.ratio && (
          <div className="muted small">
            {item.ratio.lo.toFixed(2)} to {item.ratio.hi.toFixed(2)}
          </div>
        )}
      </>
    ),
  },
  {
    name: "tags",
    title: "Tags",
    cell: (item) => (
      <>
        {item.tags.map((tag) => (
          <a key={tag} href={href("store", [], { terms: `tag=${tag}` })}>
            <Tag>{tag}</Tag>
          </a>
        ))}
        {item.redacted && <Tag>redacted</Tag>}
        {item.unverified && (
          <span title={item.unverified}>
            <Tag tone="bad">not verified</Tag>
          </span>
        )}
        {item.damage && (
          <span title={item.damage}>
            <Tag tone="bad">damaged</Tag>
          </span>
        )}
      </>
    ),
  },
  {
    name: "bytes",
    title: "Size",
    isNumber: true,
    key: (item) => item.bytes,
    cell: (item) => sizeText(item.bytes),
  },
];

export function ItemTable(props: { readonly items: readonly StoredItem[] }) {
  return (
    <Table
      isStacked
      label="Items of the store"
      columns={COLUMNS}
      rows={props.items}
      rowKey={(item) => `${item.item}/${item.manifest}`}
      limit={50}
    />
  );
}

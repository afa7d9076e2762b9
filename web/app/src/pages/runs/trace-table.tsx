import { type Column, Table } from "../../components/table";
import { shown } from "../../design/quantity";
import { href } from "../../shell/route";
import type { TraceList } from "./types";

type Trace = TraceList["traces"][number];

const COLUMNS: readonly Column<Trace>[] = [
  {
    name: "name",
    title: "Name",
    key: (trace) => trace.name,
    cell: (trace) =>
      trace.readable ? (
        <a href={href("runs", ["trace", trace.name])}>{trace.name}</a>
      ) : (
        <>
          {trace.name} <span className="muted">cannot be read</span>
        </>
      ),
  },
  { name: "source", title: "Source", key: (trace) => trace.source, cell: (trace) => trace.source },
  {
    name: "model",
    title: "Model",
    key: (trace) => trace.model,
    cell: (trace) => trace.model ?? <span className="muted">unknown</span>,
  },
  {
    name: "bytes",
    title: "Size",
    isNumber: true,
    key: (trace) => trace.bytes,
    cell: (trace) => shown({ value: trace.bytes, unit: "B" }),
  },
  {
    name: "modified",
    title: "Stored",
    key: (trace) => trace.modified,
    cell: (trace) => trace.modified,
  },
];

export function TraceTable(props: { readonly traces: readonly Trace[] }) {
  return (
    <Table label="Traces" columns={COLUMNS} rows={props.traces} rowKey={(trace) => trace.name} />
  );
}

import { type Column, Table } from "../../components/table";
import { Tag } from "../../components/tag";
import { readable } from "../../design/readable";
import type { ConeGraph } from "../../graph/cone";
import { percent } from "../../graph/share-text";
import type { Line } from "../../graph/types";
import { STATUS_TONE } from "../../graph/variable-detail";
import { VariableName } from "../../graph/variable-name";

/** What the map shows, as a table: the way for a screen reader and a keyboard. */
export function ConeTable(props: {
  readonly graph: ConeGraph;
  readonly nodes: readonly number[];
  readonly lines: ReadonlyMap<string, Line>;
  readonly opened: ReadonlySet<number>;
  readonly select: (name: string) => void;
  readonly toggle: (node: number) => void;
}) {
  const { graph, lines } = props;
  const name = (node: number) => graph.variables[node]!.name;
  const columns: readonly Column<number>[] = [
    {
      name: "variable",
      title: "Variable",
      key: name,
      cell: (node) => (
        <>
          {graph.variables[node]!.meaning}
          <button
            type="button"
            className="link-button mono cone-name"
            onClick={() => props.select(name(node))}
          >
            <VariableName name={name(node)} />
          </button>
        </>
      ),
    },
    {
      name: "layer",
      title: "Layer",
      key: (node) => graph.variables[node]!.scope,
      cell: (node) => graph.variables[node]!.scope,
    },
    {
      name: "distance",
      title: "Away",
      isNumber: true,
      key: (node) => graph.distance[node]!,
      cell: (node) => graph.distance[node],
    },
    {
      name: "status",
      title: "Status",
      key: (node) => lines.get(name(node))?.status ?? graph.variables[node]!.role,
      cell: (node) => {
        const line = lines.get(name(node));
        return line ? (
          <Tag tone={STATUS_TONE[line.status]}>{line.status}</Tag>
        ) : (
          <Tag>{graph.variables[node]!.role}</Tag>
        );
      },
    },
    {
      name: "value",
      title: "Value",
      isNumber: true,
      cell: (node) => readable(lines.get(name(node))?.figure ?? "") || "-",
    },
    {
      name: "share",
      title: "Share",
      isNumber: true,
      key: (node) => Math.abs(lines.get(name(node))?.share ?? 0),
      cell: (node) => {
        const share = lines.get(name(node))?.share;
        return share === null || share === undefined ? "-" : percent(share);
      },
    },
    {
      name: "inputs",
      title: "Inputs",
      isNumber: true,
      key: (node) => graph.inputs[node]!.length,
      cell: (node) =>
        graph.inputs[node]!.length === 0 ? (
          "-"
        ) : (
          <button
            type="button"
            className="link-button"
            aria-expanded={props.opened.has(node)}
            aria-label={`${props.opened.has(node) ? "Collapse" : "Expand"} ${name(node)}`}
            onClick={() => props.toggle(node)}
          >
            {graph.inputs[node]!.length} {props.opened.has(node) ? "\u2212" : "+"}
          </button>
        ),
    },
  ];
  return (
    <Table
      label={`Variables in view: ${props.nodes.length}`}
      columns={columns}
      rows={props.nodes}
      rowKey={name}
      rowClass={(node) => (lines.get(name(node))?.status === "missing" ? "is-missing" : undefined)}
      limit={100}
      isStacked
    />
  );
}

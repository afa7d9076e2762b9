// The same figures by other tools and rules, beside what Assay predicts for them.

import { Card } from "../../components/card";
import { Table } from "../../components/table";
import { percent } from "./format";
import type { Board, BoardEntry } from "./types";

interface Line extends BoardEntry {
  readonly group: string;
  readonly figures: number;
  readonly isFirst: boolean;
}

export function Leaderboard(props: { readonly boards: readonly Board[] }) {
  if (props.boards.length === 0) return null;
  const share = (value: number | null) => (value === null ? "-" : percent(value));
  const lines: Line[] = props.boards.flatMap(({ group, figures, entries }) =>
    entries.map((entry, index) => ({ ...entry, group, figures, isFirst: index === 0 })),
  );
  return (
    <Card
      title="Beside other tools and rules"
      about="Median errors on the figures that each answers. A small interval score is a narrow interval that holds."
    >
      <Table
        label="Leaderboard"
        rows={lines}
        rowKey={({ group, tool }) => `${group} ${tool}`}
        columns={[
          { name: "group", title: "Group", cell: ({ group, isFirst }) => (isFirst ? group : "") },
          { name: "tool", title: "Tool", cell: ({ tool }) => tool },
          {
            name: "answered",
            title: "Answers",
            isNumber: true,
            cell: ({ answered, figures }) => `${answered} of ${figures}`,
          },
          {
            name: "median",
            title: "Median error",
            isNumber: true,
            cell: (line) => share(line.median),
          },
          {
            name: "own",
            title: "Assay on the same",
            isNumber: true,
            cell: ({ own_median }) => share(own_median),
          },
          {
            name: "score",
            title: "Interval score",
            isNumber: true,
            cell: ({ interval_score }) => interval_score?.toFixed(2) ?? "-",
          },
        ]}
      />
    </Card>
  );
}

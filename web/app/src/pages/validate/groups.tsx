// The groups of figures that people ask about, each against its bar.

import { Card } from "../../components/card";
import { Table } from "../../components/table";
import { Tag } from "../../components/tag";
import { percent } from "./format";
import type { Group } from "./types";

export function Groups(props: { readonly groups: readonly Group[] }) {
  if (props.groups.length === 0) return null;
  const share = (value: number | null | undefined) =>
    value === null || value === undefined ? "-" : percent(value);
  return (
    <Card
      title="By group of figures"
      about="Errors of constants that never saw the source of a figure, against the bar of each group."
    >
      <Table
        label="Groups of figures"
        rows={props.groups}
        rowKey={({ group }) => group}
        columns={[
          { name: "group", title: "Group", cell: ({ group }) => group },
          {
            name: "count",
            title: "Figures",
            isNumber: true,
            cell: ({ held_out }) => held_out?.cases ?? 0,
          },
          {
            name: "in",
            title: "In-sample median",
            isNumber: true,
            cell: ({ in_sample }) => share(in_sample?.median),
          },
          {
            name: "median",
            title: "Held-out median",
            isNumber: true,
            cell: ({ held_out }) => share(held_out?.median),
          },
          { name: "bar", title: "Bar", isNumber: true, cell: ({ bar }) => share(bar) },
          {
            name: "coverage",
            title: "Inside 90 %",
            isNumber: true,
            cell: ({ coverage90 }) => share(coverage90),
          },
          {
            name: "verdict",
            title: "Verdict",
            cell: ({ failures }) =>
              failures && failures.length > 0 ? (
                <Tag tone="bad">{failures.join(", ")}</Tag>
              ) : (
                <Tag tone="good">within the bar</Tag>
              ),
          },
        ]}
      />
    </Card>
  );
}

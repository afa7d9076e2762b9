import { type ReactNode, useMemo, useState } from "react";

export interface Column<Row> {
  readonly name: string;
  readonly title: ReactNode;
  readonly cell: (row: Row) => ReactNode;
  readonly isNumber?: boolean;
  /** What the rows are sorted by when its title is pressed. */
  readonly key?: (row: Row) => number | string | null;
  readonly width?: string;
}

/** A table whose columns sort where they have a key; it scrolls sideways where it is too wide. */
export function Table<Row>(props: {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly rowKey: (row: Row, index: number) => string;
  readonly rowClass?: (row: Row) => string | undefined;
  /** Rows shown at first; a button shows the others. */
  readonly limit?: number;
  /** On a narrow screen each row becomes a block with the titles beside its cells. */
  readonly isStacked?: boolean;
}) {
  const [order, setOrder] = useState<{ name: string; isDown: boolean } | null>(null);
  const [isWhole, setWhole] = useState(false);
  const rows = useMemo(() => {
    const key = props.columns.find((one) => one.name === order?.name)?.key;
    if (!key || !order) return props.rows;
    const sign = order.isDown ? -1 : 1;
    return [...props.rows].sort((one, other) => sign * compare(key(one), key(other)));
  }, [props.rows, props.columns, order]);
  const limit = isWhole ? rows.length : (props.limit ?? rows.length);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard.
    <section className="table-scroll" aria-label={props.label} tabIndex={0}>
      <table className={props.isStacked ? "table stacks" : "table"}>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th
                key={column.name}
                scope="col"
                className={column.isNumber ? "number" : undefined}
                style={column.width ? { width: column.width } : undefined}
                aria-sort={
                  order?.name === column.name
                    ? order.isDown
                      ? "descending"
                      : "ascending"
                    : undefined
                }
              >
                {column.key ? (
                  <button
                    type="button"
                    className="table-sort"
                    onClick={() =>
                      setOrder((before) =>
                        before?.name === column.name
                          ? { name: column.name, isDown: !before.isDown }
                          : { name: column.name, isDown: column.isNumber === true },
                      )
                    }
                  >
                    {column.title}
                  </button>
                ) : (
                  column.title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, limit).map((row, index) => (
            <tr key={props.rowKey(row, index)} className={props.rowClass?.(row)}>
              {props.columns.map((column) => (
                <td
                  key={column.name}
                  className={column.isNumber ? "number" : undefined}
                  data-title={typeof column.title === "string" ? column.title : undefined}
                >
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > limit && (
        <button type="button" className="button quiet" onClick={() => setWhole(true)}>
          Show all {rows.length.toLocaleString("en-US")}
        </button>
      )}
    </section>
  );
}

function compare(one: number | string | null, other: number | string | null): number {
  // What is not known comes last in either order of sorting by name.
  if (one === null || other === null) return one === other ? 0 : one === null ? 1 : -1;
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other));
}

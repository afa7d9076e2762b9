import type { CSSProperties, KeyboardEvent } from "react";
import { shownChange } from "../../design/quantity";
import { grouped, readable } from "../../design/readable";
import { changeOf, type Row } from "../../graph/receipt";
import { percent } from "../../graph/share-text";
import { VariableName } from "../../graph/variable-name";
import { ChangeForm } from "./change-form";

const LABEL = "Lines of the receipt";

interface TreeProps {
  readonly rows: readonly Row[];
  readonly isCompared: boolean;
  readonly selected: string | null;
  readonly changing: string | null;
  readonly select: (name: string) => void;
  readonly toggle: (path: string) => void;
  readonly startChange: (name: string | null) => void;
  readonly change: (name: string, text: string) => void;
}

/** The lines as a tree grid: arrows move and open, the columns are those of a receipt. */
export function ReceiptTree(props: TreeProps) {
  const { rows } = props;
  const at = Math.max(
    rows.findIndex((row) => row.name === props.selected),
    0,
  );

  const compared = props.isCompared ? "is-compared" : "";

  function key(event: KeyboardEvent<HTMLTableSectionElement>): void {
    const here = (event.target as HTMLElement).closest<HTMLElement>("tr[data-path]");
    // Keys inside a form of a row are its own.
    if (!here || event.target !== here) return;
    const index = rows.findIndex((row) => row.path === here.dataset["path"]);
    const row = rows[index];
    if (!row) return;
    let next = index;
    if (event.key === "ArrowDown") next = Math.min(index + 1, rows.length - 1);
    else if (event.key === "ArrowUp") next = Math.max(index - 1, 0);
    else if (event.key === "ArrowRight" && row.inputs > 0 && !row.isOpen) props.toggle(row.path);
    else if (event.key === "ArrowLeft" && row.isOpen) props.toggle(row.path);
    else if (event.key === "Enter" || event.key === " ") props.select(row.name);
    else return;
    event.preventDefault();
    if (next !== index) {
      here.parentElement?.querySelectorAll<HTMLElement>("tr[data-path]")[next]?.focus();
      props.select(rows[next]!.name);
    }
  }

  return (
    <div className="table-scroll">
      {/* biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: the pattern of a tree grid (WAI-ARIA). */}
      <table className={`table receipt-tree ${compared}`} role="treegrid" aria-label={LABEL}>
        <thead>
          <tr>
            <th scope="col">Line</th>
            <th scope="col">Share</th>
            <th scope="col" className="number">
              Value
            </th>
            {props.isCompared && (
              <th scope="col" className="number">
                Change
              </th>
            )}
          </tr>
        </thead>
        <tbody onKeyDown={key}>
          {rows.map((row, index) => (
            <TreeRow key={row.path} row={row} isFirst={index === at} {...props} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function TreeRow(props: TreeProps & { readonly row: Row; readonly isFirst: boolean }) {
  const { row } = props;
  const line = row.line ?? row.before!;
  const ratio = props.isCompared ? changeOf(row) : null;
  const isGiven = line.status === "given" || line.status === "missing";
  return (
    <tr
      data-path={row.path}
      data-name={row.name}
      aria-level={row.depth + 1}
      {...(row.inputs > 0 ? { "aria-expanded": row.isOpen } : {})}
      aria-selected={row.name === props.selected}
      tabIndex={props.isFirst ? 0 : -1}
      className={row.name === props.selected ? "is-selected" : undefined}
      onClick={() => props.select(row.name)}
    >
      <td>
        <div className="receipt-line" style={{ "--depth": row.depth } as CSSProperties}>
          {row.inputs > 0 ? (
            <button
              type="button"
              tabIndex={-1}
              className="receipt-caret"
              aria-label={`${row.isOpen ? "Close" : "Open"} ${row.name}`}
              onClick={(event) => {
                event.stopPropagation();
                props.toggle(row.path);
              }}
            >
              <span aria-hidden="true" className={row.isOpen ? "caret is-open" : "caret"} />
            </button>
          ) : (
            <span className="receipt-caret" aria-hidden="true" />
          )}
          <div>
            <span className={`receipt-name status-${line.status}`}>{line.meaning || row.name}</span>
            <span className="receipt-variable small muted">
              <VariableName name={row.name} />
              {row.isCircular && ", solved together with the line above"}
              {!row.line && ", not used any more"}
              {props.isCompared && row.line && !row.before && ", not used before"}
            </span>
          </div>
        </div>
      </td>
      <td>
        <ShareBar share={row.share} />
      </td>
      <td className="number">
        {props.changing === row.name && isGiven ? (
          <ChangeForm
            name={row.name}
            value={plain(line.value, line.unit)}
            unit={line.unit}
            apply={(text) => props.change(row.name, text)}
            close={() => props.startChange(null)}
          />
        ) : (
          <>
            <span className={line.status === "missing" ? "missing-names" : undefined}>
              {row.line
                ? readable(row.line.figure) || (line.status === "missing" ? "missing" : "not known")
                : "-"}
            </span>
            {props.isCompared && row.before && row.before.figure !== row.line?.figure && (
              <span className="receipt-interval muted small">
                was {readable(row.before.figure) || "not known"}
              </span>
            )}
            {row.line?.interval && (
              <span className="receipt-interval muted small">{grouped(row.line.interval)}</span>
            )}
            {isGiven && row.line && (
              <button
                type="button"
                className="receipt-change"
                aria-label={`Change ${row.name}`}
                onClick={(event) => {
                  event.stopPropagation();
                  props.select(row.name);
                  props.startChange(row.name);
                }}
              >
                Change
              </button>
            )}
          </>
        )}
      </td>
      {props.isCompared && (
        <td className="number">
          {ratio === null ? "" : Math.abs(ratio - 1) < 5e-7 ? "=" : shownChange(ratio)}
        </td>
      )}
    </tr>
  );
}

function ShareBar(props: { readonly share: number | null }) {
  const { share } = props;
  if (share === null) return <span className="muted">-</span>;
  const width = 100 * Math.min(Math.abs(share), 1);
  return (
    <span className="share">
      <span className="share-bar" aria-hidden="true">
        <span className={share < 0 ? "is-negative" : undefined} style={{ width: `${width}%` }} />
      </span>
      <span className="number">{percent(share)}</span>
    </span>
  );
}

/** A value as one would type it. */
function plain(value: number | null, unit: string): string {
  if (value === null) return "";
  return `${Number(value.toPrecision(6))}${unit === "1" ? "" : ` ${unit}`}`;
}

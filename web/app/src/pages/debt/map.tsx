import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { percent } from "../../graph/share-text";
import { type Box, treemap } from "../../graph/treemap";
import type { DebtRow } from "../../graph/types";

/** Pixels at first, before the room is measured. */
const FIRST_WIDTH = 640;
const HEIGHT = 460;
const HEAD = 17;
/** Pixels of a letter, to know which names fit. */
const LETTER = 6.4;

interface Tile {
  readonly row: DebtRow;
  readonly box: Box;
}

interface Family {
  readonly name: string;
  readonly box: Box;
  readonly tiles: readonly Tile[];
}

/** Roots as areas, those of a family side by side. */
export function DebtMap(props: {
  readonly rows: readonly DebtRow[];
  readonly by: string;
  readonly stateOf: (row: DebtRow) => string;
  readonly chosen: string;
  readonly choose: (name: string) => void;
}) {
  const { rows, by } = props;
  const place = useRef<SVGSVGElement>(null);
  const [width, setWidth] = useState(FIRST_WIDTH);
  useEffect(() => {
    const frame = place.current?.parentElement;
    if (!frame) return;
    const watcher = new ResizeObserver(() => setWidth(Math.max(frame.clientWidth, 200)));
    watcher.observe(frame);
    return () => watcher.disconnect();
  }, []);
  const families = useMemo(() => arrange(rows, by, width), [rows, by, width]);
  const order = families.flatMap((family) => family.tiles.map((tile) => tile.row.name));
  const current = order.includes(props.chosen) ? props.chosen : order[0];

  function key(event: KeyboardEvent<SVGGElement>, name: string): void {
    const at = order.indexOf(name);
    const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1 }[
      event.key
    ];
    if (event.key === "Enter" || event.key === " ") props.choose(name);
    else if (next !== undefined && order[next]) {
      place.current?.querySelectorAll<SVGGElement>("[role=button]")[next]?.focus();
    } else return;
    event.preventDefault();
  }

  return (
    <div className="debt-frame">
      {families.length === 0 && <p className="muted">None of them carries any of it.</p>}
      <svg
        ref={place}
        className="debt-map"
        width={width}
        height={HEIGHT}
        role="group"
        aria-label="Map of roots by family"
      >
        {families.map((family) => (
          <g key={family.name}>
            {family.box.height > 2 * HEAD && (
              <text x={family.box.x + 4} y={family.box.y + 12} className="debt-family">
                {fitted(family.name, family.box.width - 8)}
              </text>
            )}
            {family.tiles.map(({ row, box }) => (
              <g
                key={row.name}
                role="button"
                tabIndex={row.name === current ? 0 : -1}
                aria-label={`${row.name}: ${amount(row, by)}, ${props.stateOf(row)}`}
                aria-pressed={row.name === props.chosen}
                className={`debt-tile is-${classOf(props.stateOf(row))}`}
                onClick={() => props.choose(row.name)}
                onKeyDown={(event) => key(event, row.name)}
              >
                <title>{`${row.name}: ${row.meaning}; ${amount(row, by)}`}</title>
                <rect
                  x={box.x}
                  y={box.y}
                  width={Math.max(box.width - 1, 0)}
                  height={Math.max(box.height - 1, 0)}
                />
                {box.width > 44 && box.height > 16 && (
                  <text x={box.x + 5} y={box.y + 14}>
                    {fitted(row.name.split(".").slice(-1)[0]!, box.width - 10)}
                  </text>
                )}
                {box.width > 56 && box.height > 34 && (
                  <text x={box.x + 5} y={box.y + 29} className="debt-amount">
                    {fitted(shortAmount(row, by), box.width - 10)}
                  </text>
                )}
              </g>
            ))}
          </g>
        ))}
      </svg>
    </div>
  );
}

function amount(row: DebtRow, by: string): string {
  if (by !== "variance") return `${row.dependents} relations`;
  return row.variance_share === null ? row.note : `${percent(row.variance_share)} of the variance`;
}

/** The amount alone: what is counted stands below the map. */
function shortAmount(row: DebtRow, by: string): string {
  if (by !== "variance") return row.dependents.toLocaleString("en-US");
  return row.variance_share === null ? row.note : percent(row.variance_share);
}

function weightOf(row: DebtRow, by: string): number {
  return Math.max(by === "variance" ? (row.variance_share ?? 0) : row.dependents, 0);
}

function arrange(rows: readonly DebtRow[], by: string, width: number): Family[] {
  const grouped = new Map<string, DebtRow[]>();
  for (const row of rows) {
    if (weightOf(row, by) <= 0) continue;
    // The family of a variable is its name without the last part.
    const family = row.name.split(".").slice(0, -1).join(".");
    const members = grouped.get(family);
    if (members) members.push(row);
    else grouped.set(family, [row]);
  }
  const total = (members: readonly DebtRow[]) =>
    members.reduce((sum, row) => sum + weightOf(row, by), 0);
  const families = [...grouped].sort((one, other) => total(other[1]) - total(one[1]));
  const boxes = treemap(
    families.map(([, members]) => total(members)),
    { x: 0, y: 0, width, height: HEIGHT },
  );
  return families.map(([name, members], at) => {
    const box = boxes[at]!;
    const head = box.height > 2 * HEAD ? HEAD : 0;
    members.sort((one, other) => weightOf(other, by) - weightOf(one, by));
    const inner = treemap(
      members.map((row) => weightOf(row, by)),
      {
        x: box.x + 1,
        y: box.y + head,
        width: Math.max(box.width - 2, 0),
        height: Math.max(box.height - head - 2, 0),
      },
    );
    return { name, box, tiles: members.map((row, index) => ({ row, box: inner[index]! })) };
  });
}

function fitted(text: string, width: number): string {
  const letters = Math.floor(width / LETTER);
  if (text.length <= letters) return text;
  return letters < 4 ? "" : `${text.slice(0, letters - 1)}\u2026`;
}

/** The color of a state, which the legend names. */
export function classOf(state: string): string {
  if (state.includes("missing") || state === "needs-source") return "missing";
  if (state.includes("assumed") || state === "decompose") return "assumed";
  return state === "scenario" || state === "stated" ? "chosen" : "sourced";
}

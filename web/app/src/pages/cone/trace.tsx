import { Card } from "../../components/card";
import { Empty, ErrorState, Loading } from "../../components/states";
import { type Column, Table } from "../../components/table";
import { Tag, type Tone } from "../../components/tag";
import { readable } from "../../design/readable";
import type { Condition, Line, MissingInput, Receipt } from "../../graph/types";
import { VariableName } from "../../graph/variable-name";

const TONES: Readonly<Record<Condition["status"], Tone>> = {
  true: "good",
  false: "bad",
  unknown: "warn",
};
const WORDS: Readonly<Record<Condition["status"], string>> = {
  true: "holds",
  false: "violated",
  unknown: "not judged",
};

/** What happened when the scenario was resolved: equations, constraints, missing roots. */
export function Trace(props: { readonly receipt: Receipt | null; readonly trouble: Error | null }) {
  if (props.trouble)
    return <ErrorState error={props.trouble} title="The scenario cannot be resolved" />;
  if (!props.receipt) return <Loading what="Resolving the scenario" />;
  const { constraints, unjudged, validity, missing, switches, lines } = props.receipt;
  const known = lines.filter((line) => line.value !== null).length;
  const fired = inOrder(lines).map((line, at) => ({ line, at }));
  return (
    <div className="stack">
      <Card title={`Roots missing: ${missing.length}`}>
        {missing.length === 0 ? (
          <p className="muted">Every input that the value needs is given.</p>
        ) : (
          <Table
            label="Missing roots"
            columns={GAPS}
            rows={missing}
            rowKey={(gap) => gap.name}
            rowClass={() => "is-missing"}
            limit={30}
          />
        )}
      </Card>
      <Card
        title={`Constraints checked: ${constraints.length}`}
        about={`${unjudged.length} more concern other values`}
      >
        {constraints.length === 0 ? (
          <p className="muted">No constraint mentions what was computed.</p>
        ) : (
          <Table
            label="Constraints"
            columns={CONDITIONS}
            rows={ordered(constraints)}
            rowKey={(one) => one.name}
            limit={30}
          />
        )}
      </Card>
      <Card
        title={`Approximations: ${validity.length}`}
        about={
          switches.length
            ? `${switches.length} replaced because they are not valid here`
            : "all by their first choice"
        }
      >
        {validity.length === 0 ? (
          <p className="muted">Every relation is an identity.</p>
        ) : (
          <Table
            label="Validity of approximations"
            columns={CONDITIONS}
            rows={ordered(validity)}
            rowKey={(one) => one.name}
            limit={15}
          />
        )}
      </Card>
      <Card
        title={`Equations fired: ${fired.length}`}
        about={`each after what it needs, from ${known - fired.length} given values and constants`}
      >
        {fired.length === 0 ? (
          <Empty title="Nothing was computed">
            Choose a scenario, or give the missing roots a value.
          </Empty>
        ) : (
          <Table
            label="Equations in order"
            columns={STEPS}
            rows={fired}
            rowKey={(step) => step.line.name}
            limit={40}
          />
        )}
      </Card>
    </div>
  );
}

/** Lines that an equation computed, each after what it needs. */
function inOrder(lines: readonly Line[]): Line[] {
  const byName = new Map(lines.map((line) => [line.name, line]));
  const found: Line[] = [];
  const seen = new Set<string>();
  // A stack instead of recursion: definitions are dozens of relations deep.
  const stack = lines[0] ? [{ line: lines[0], next: 0 }] : [];
  if (lines[0]) seen.add(lines[0].name);
  while (stack.length > 0) {
    const top = stack.at(-1)!;
    const input = top.line.inputs[top.next++];
    if (!input) {
      if (top.line.relation !== null && top.line.value !== null) found.push(top.line);
      stack.pop();
    } else if (!seen.has(input.name)) {
      seen.add(input.name);
      const line = byName.get(input.name);
      if (line) stack.push({ line, next: 0 });
    }
  }
  return found;
}

/** Violated first, then what could not be judged. */
function ordered(verdicts: readonly Condition[]): Condition[] {
  const rank = { false: 0, unknown: 1, true: 2 };
  return [...verdicts].sort((one, other) => rank[one.status] - rank[other.status]);
}

const GAPS: readonly Column<MissingInput>[] = [
  {
    name: "name",
    title: "Root",
    cell: (gap) => <span className="mono missing-names">{gap.name}</span>,
    key: (gap) => gap.name,
  },
  { name: "unit", title: "Unit", cell: (gap) => gap.unit },
  { name: "meaning", title: "Meaning", cell: (gap) => gap.meaning },
  {
    name: "needed",
    title: "Needed by",
    isNumber: true,
    cell: (gap) => gap.needed_by.length,
    key: (gap) => gap.needed_by.length,
  },
];

const CONDITIONS: readonly Column<Condition>[] = [
  {
    name: "status",
    title: "Status",
    cell: (one) => <Tag tone={TONES[one.status]}>{WORDS[one.status]}</Tag>,
    key: (one) => one.status,
  },
  {
    name: "name",
    title: "Name",
    cell: (one) => <span className="mono">{one.name}</span>,
    key: (one) => one.name,
  },
  {
    name: "about",
    title: "Condition",
    cell: (one) => (
      <>
        {one.meaning && <div>{one.meaning}</div>}
        <div className="mono small muted clipped">{one.text}</div>
        {one.missing.length > 0 && (
          <div className="missing-names small">
            lacks {one.missing.slice(0, 5).join(", ")}
            {one.missing.length > 5 ? ` and ${one.missing.length - 5} more` : ""}
          </div>
        )}
      </>
    ),
  },
];

interface Step {
  readonly line: Line;
  readonly at: number;
}

const STEPS: readonly Column<Step>[] = [
  {
    name: "order",
    title: "#",
    isNumber: true,
    cell: (step) => step.at + 1,
    key: (step) => step.at,
  },
  {
    name: "name",
    title: "Variable",
    cell: (step) => <VariableName name={step.line.name} />,
    key: (step) => step.line.name,
  },
  { name: "value", title: "Value", isNumber: true, cell: (step) => readable(step.line.figure) },
  {
    name: "text",
    title: "Equation",
    cell: (step) => <span className="mono small clipped">{step.line.text}</span>,
  },
];

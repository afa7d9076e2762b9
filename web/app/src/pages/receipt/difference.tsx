import { useApi } from "../../api/use-api";
import { Card } from "../../components/card";
import { Shown } from "../../components/states";
import { shownChange } from "../../design/quantity";
import { readable } from "../../design/readable";
import { queryOf, type Scenario } from "../../graph/scenario";
import { percent } from "../../graph/share-text";
import type { Difference, Receipt } from "../../graph/types";

/** The total before and after, and what carries the difference. */
export function DifferenceCard(props: {
  readonly target: string;
  readonly base: Scenario;
  readonly scenario: Scenario;
  readonly before: Receipt;
  readonly after: Receipt;
}) {
  const { before, after } = props;
  const isKnown = before.value !== null && after.value !== null;
  const difference = useApi<Difference>(isKnown ? "diff" : null, {
    ...queryOf(props.scenario),
    before: props.base.preset,
    with_before: props.base.includes,
    assign_before: props.base.values,
    target: props.target,
  });
  const first = before.lines[0];
  const last = after.lines[0];
  return (
    <Card
      title="The difference"
      about={`Compared with ${nameOf(props.base)}`}
      className="difference"
    >
      <p className="difference-ends">
        <span className="number muted">{readable(first?.figure ?? "") || "not known"}</span>
        <span aria-hidden="true">{" \u2192 "}</span>
        <span className="unseen">becomes</span>
        <strong className="number">{readable(last?.figure ?? "") || "not known"}</strong>
        {isKnown && before.value !== 0 && (
          <span className="number difference-change">
            {shownChange(after.value! / before.value!)}
          </span>
        )}
      </p>
      {isKnown && (
        <Shown of={difference} what="Finding what carries it">
          {(found) => <Contributions found={found} />}
        </Shown>
      )}
    </Card>
  );
}

function nameOf({ preset, includes, values }: Scenario): string {
  const parts = [...includes.map((entry) => entry.split("/").at(-1)!), ...values];
  const name = preset.replaceAll("_", " ");
  return parts.length === 0 ? name : `${name}, with ${parts.join(", ")}`;
}

function Contributions(props: { readonly found: Difference }) {
  const { found } = props;
  const total = found.after - found.before;
  if (found.contributions.length === 0) {
    return <p className="muted">Nothing that it depends on differs.</p>;
  }
  const largest = Math.max(...found.contributions.map((one) => Math.abs(one.amount)));
  return (
    <>
      <ul className="contributions">
        {found.contributions.slice(0, 12).map((one) => (
          <li key={one.label}>
            <span className="mono contribution-label">{one.label}</span>
            <span className="contribution-bar" aria-hidden="true">
              <span
                className={one.amount < 0 ? "is-less" : undefined}
                style={{ width: `${(100 * Math.abs(one.amount)) / largest}%` }}
              />
            </span>
            <span className="number">
              {total === 0 ? "-" : `${percent(one.amount / total)} of the difference`}
            </span>
          </li>
        ))}
      </ul>
      {found.unused.length > 0 && (
        <p className="small muted">
          {found.unused.length} changed {found.unused.length === 1 ? "input does" : "inputs do"} not
          reach it.
        </p>
      )}
    </>
  );
}

// Where the time of a step goes: floor, losses, what was predicted, and the causes.

import { useApi } from "../../api/use-api";
import { Card } from "../../components/card";
import { Share } from "../../components/share";
import { Empty, Shown } from "../../components/states";
import { shown } from "../../design/quantity";
import { ReportShown } from "./report-shown";
import { StepComparison } from "./step-comparison";
import type { Claim, Plan, RunDetails } from "./types";

const US = 1e3;

export function Overview({ run }: { readonly run: RunDetails }) {
  const plan = useApi<Plan>(`runs/${run.run}/plan`);
  return (
    <div className="stack">
      <Shown of={plan}>{({ plan: found }) => <PlannedStep plan={found} />}</Shown>
      <Causes run={run} />
      <Notes run={run} />
    </div>
  );
}

function PlannedStep({ plan }: { readonly plan: Plan["plan"] }) {
  const prediction = plan?.prediction;
  // Every nanosecond of a step is in one of the terms.
  const itemized = plan?.waterfall.reduce((sum, term) => sum + term.ns, 0) ?? 0;
  if (!plan || !itemized) {
    return (
      <Card title="Predicted beside observed">
        <Empty title="No waterfall">
          This run has no trace of its steps, so that their time is not itemized.
        </Empty>
      </Card>
    );
  }
  const unpredicted =
    "Nothing was predicted for this run, so the time of kernels is not split at a floor. The degradations below say why.";
  return (
    <StepComparison
      what="The median decode step before any change"
      terms={plan.waterfall}
      observedNs={prediction?.observed_ns ?? itemized}
      predicted={
        prediction?.expected_ns
          ? {
              ns: prediction.expected_ns,
              lo: prediction.lo_ns ?? prediction.expected_ns,
              hi: prediction.hi_ns ?? prediction.expected_ns,
            }
          : null
      }
      nodes={plan.nodes ?? []}
      absent={
        prediction
          ? "This run was stored by a version that did not keep the nodes of its prediction."
          : "Without a prediction there are no nodes to set beside what ran."
      }
      note={[prediction ? "" : unpredicted, sentence(plan.qualification?.sentence)]
        .filter(Boolean)
        .join(" ")}
    />
  );
}

function sentence(text: string | undefined): string {
  return text ? `${text[0]!.toUpperCase()}${text.slice(1)}.` : "";
}

function Causes(props: { readonly run: RunDetails }) {
  return (
    <Card title="Causes" about="What each explains of a token's time, largest first.">
      <ReportShown run={props.run}>
        {({ claims }) => {
          const causes = claims.filter((one) => one.name.startsWith("cause.") && one.figure);
          const most = Math.max(...causes.map((one) => one.figure!.value), 1e-9);
          if (!causes.length) return <Empty title="No causes were established" />;
          return (
            <ul className="causes">
              {causes.map((one) => (
                <Cause key={one.name} claim={one} most={most} />
              ))}
            </ul>
          );
        }}
      </ReportShown>
    </Card>
  );
}

function Cause({ claim, most }: { readonly claim: Claim; readonly most: number }) {
  const { value, lo, hi } = claim.figure!;
  const time = (us: number) => shown({ value: (us * US) / 1e9, unit: "s" });
  return (
    <li>
      <span>{claim.statement.split(":")[0]}</span>
      <Share value={value / most} label={`${time(value)} per token`} />
      <span className="muted small number">
        {time(lo)} to {time(hi)}
      </span>
    </li>
  );
}

function Notes({ run }: { readonly run: RunDetails }) {
  const texts = [...run.rollbacks.map((one) => `Rolled back: ${one.why}`), ...run.degradations];
  if (!texts.length) return null;
  return (
    <Card title="Degradations" about="What was missing or done in another way.">
      <ul className="plain-list">
        {texts.map((text) => (
          <li key={text}>{text}</li>
        ))}
      </ul>
    </Card>
  );
}

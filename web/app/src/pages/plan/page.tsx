// Plan: a rate of requests, the front of cost against interactivity, and sliders for the limits.

import { useEffect, useId, useMemo, useState } from "react";
import { useApi } from "../../api/use-api";
import { Card } from "../../components/card";
import { PageHead } from "../../components/page-head";
import { Shown } from "../../components/states";
import { Select, Toolbar } from "../../components/toolbar";
import { CopyCommand } from "../../graph/copy-button";
import { href, replace, useRoute } from "../../shell/route";
import { FrontChart } from "./chart";
import { cheapest, dollars, nearest, plansAt } from "./front";
import "./plan.css";
import type { Choices, RatesByLimits } from "./types";
import { Within } from "./within";

const START = {
  model: "llama-3.1-8b",
  rate: "100",
  input: "lognormal:665,1",
  output: "lognormal:148,0.8",
  gpus: "h100,h200,b200,a100",
  share: "0.99",
  disaggregated: "",
  ttft: "1",
  tpot: "0.05",
};
type Asked = typeof START;
const SHARES = ["0.9", "0.95", "0.99", "0.999"];
/** How long a slider rests before the plan of its limits is asked for. */
const REST_MS = 700;

export default function PlanPage() {
  const { params } = useRoute();
  const asked = Object.fromEntries(
    Object.entries(START).map(([name, start]) => [name, params.get(name) ?? start]),
  ) as Asked;
  const change = (changes: Partial<Asked>) => replace(href("plan", [], { ...asked, ...changes }));
  const choices = useApi<Choices>("plan/choices");
  const models = choices.state === "error" ? [] : (choices.data?.models ?? []);
  const known = models.includes(asked.model) ? models : [asked.model, ...models];
  const { ttft, tpot, disaggregated, ...rest } = asked;
  const query = { ...rest, disaggregated: disaggregated === "1" };
  const rates = useApi<RatesByLimits>("plan/by-limits", query);
  return (
    <>
      <PageHead
        title="Plan"
        about="How many GPUs a rate of requests needs, which, and what tighter limits cost."
      >
        <CopyCommand command={commandOf(asked)} />
      </PageHead>
      <Toolbar label="Traffic">
        <Select
          label="Model"
          value={asked.model}
          options={known.map((name) => [name, name] as const)}
          choose={(model) => change({ model })}
        />
        <Field label="Requests a second" value={asked.rate} set={(rate) => change({ rate })} />
        <Field label="Input tokens" value={asked.input} set={(input) => change({ input })} />
        <Field label="Output tokens" value={asked.output} set={(output) => change({ output })} />
        <Field label="Accelerators" value={asked.gpus} set={(gpus) => change({ gpus })} />
        <Select
          label="Within limits"
          value={asked.share}
          options={SHARES.map((share) => [share, `${100 * Number(share)} % of requests`] as const)}
          choose={(share) => change({ share })}
        />
        <Select
          label="Prefill and decode"
          value={asked.disaggregated}
          options={[
            ["", "on the same GPUs"],
            ["1", "also apart"],
          ]}
          choose={(apart) => change({ disaggregated: apart })}
        />
      </Toolbar>
      <Shown of={rates} what="Looking at every server">
        {(answer) => (
          <Limits
            rates={answer}
            ttft={Number(ttft)}
            tpot={Number(tpot)}
            query={query}
            change={change}
          />
        )}
      </Shown>
    </>
  );
}

function Limits(props: {
  readonly rates: RatesByLimits;
  readonly ttft: number;
  readonly tpot: number;
  readonly query: Readonly<Record<string, string | boolean>>;
  readonly change: (changes: Partial<Asked>) => void;
}) {
  const { rates, change } = props;
  const row = nearest(rates.first_token, props.ttft);
  const column = nearest(rates.output_token, props.tpot);
  const [first, token] = [rates.first_token[row]!, rates.output_token[column]!];
  const plans = useMemo(() => plansAt(rates, row), [rates, row]);
  const chosen = cheapest(plans, token);
  const rested = useRested(`${first} ${token}`);
  const [restedFirst = "1", restedToken = "0.05"] = rested.split(" ");
  return (
    <div className="stack">
      <Card
        title="Cost against interactivity"
        about="Every point is a server with enough replicas for the rate, within a limit of TPOT. No filled point is beaten by one as fast."
      >
        <div className="plan-sliders" role="group" aria-label="Limits of latency">
          <LimitSlider
            label="First token (TTFT) within"
            limits={rates.first_token}
            place={row}
            shown={`${first} s`}
            set={(place) => change({ ttft: String(rates.first_token[place]) })}
          />
          <LimitSlider
            label="Each next token (TPOT) within"
            limits={rates.output_token}
            place={column}
            shown={`${Number((1e3 * token).toPrecision(3))} ms`}
            set={(place) => change({ tpot: String(rates.output_token[place]) })}
          />
        </div>
        <p className="plan-answer" aria-live="polite" data-testid="plan-answer">
          {chosen
            ? `${chosen.gpus.toLocaleString("en-US")} GPUs: ${chosen.replicas} x ${chosen.server.gpu} ${chosen.server.layout}, ${dollars(chosen.usdPerHour)} an hour`
            : "No server keeps these limits, however many there are."}
        </p>
        {plans.length > 0 && (
          <FrontChart
            plans={plans}
            limit={token}
            chosen={chosen}
            choose={(limit) => change({ tpot: String(limit) })}
          />
        )}
      </Card>
      {chosen && <Within query={{ ...props.query, ttft: restedFirst, tpot: restedToken }} />}
    </div>
  );
}

/** A slider over a list of limits, by their places. */
function LimitSlider(props: {
  readonly label: string;
  readonly limits: readonly number[];
  readonly place: number;
  readonly shown: string;
  readonly set: (place: number) => void;
}) {
  const id = useId();
  return (
    <div className="slider">
      <div className="slider-head">
        <label htmlFor={id}>{props.label}</label>
        <output htmlFor={id} className="number">
          {props.shown}
        </output>
      </div>
      <input
        id={id}
        type="range"
        min={0}
        max={props.limits.length - 1}
        step={1}
        value={props.place}
        aria-valuetext={props.shown}
        onChange={(event) => props.set(Number(event.target.value))}
      />
    </div>
  );
}

/** A text that is taken when it is done: a plan for every letter would take seconds each. */
function Field(props: {
  readonly label: string;
  readonly value: string;
  readonly set: (value: string) => void;
}) {
  const [text, setText] = useState(props.value);
  useEffect(() => setText(props.value), [props.value]);
  const take = () => text.trim() && text !== props.value && props.set(text.trim());
  return (
    <label className="field">
      <span className="field-label">{props.label}</span>
      <input
        className="input"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onBlur={take}
        onKeyDown={(event) => event.key === "Enter" && take()}
      />
    </label>
  );
}

/** A text once it has rested. */
function useRested(text: string): string {
  const [rested, setRested] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setRested(text), REST_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return rested;
}

function commandOf(asked: Asked): string {
  const slo = `ttft=${asked.ttft}s,tpot=${1e3 * Number(asked.tpot)}ms,p=${100 * Number(asked.share)}%`;
  const apart = asked.disaggregated === "1" ? " --disaggregated" : "";
  return `assay plan --model ${asked.model} --rate ${asked.rate} --input-tokens ${asked.input} --output-tokens ${asked.output} --gpu ${asked.gpus} --slo ${slo}${apart}`;
}

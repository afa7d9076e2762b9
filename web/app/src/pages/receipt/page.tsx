import { useEffect, useMemo, useState } from "react";
import { useApi } from "../../api/use-api";
import { Button } from "../../components/button";
import { Card } from "../../components/card";
import { PageHead } from "../../components/page-head";
import { Empty, Shown } from "../../components/states";
import { Select } from "../../components/toolbar";
import { grouped, readable } from "../../design/readable";
import { CopyCommand } from "../../graph/copy-button";
import { Findings } from "../../graph/findings";
import "../../graph/graph.css";
import { openAtFirst, pathsAbove, pathTo, rowsOf } from "../../graph/receipt";
import {
  isSame,
  optionsOf,
  paramsOf,
  queryOf,
  type Scenario,
  scenarioOf,
  startOf,
  withValue,
} from "../../graph/scenario";
import { ScenarioBar } from "../../graph/scenario-bar";
import type { Preset, Receipt } from "../../graph/types";
import { VariableDetail } from "../../graph/variable-detail";
import { VariablePicker } from "../../graph/variable-picker";
import { go, href, useRoute } from "../../shell/route";
import { ChangeForm } from "./change-form";
import { DifferenceCard } from "./difference";
import { ReceiptTree } from "./tree";

/** Lines that carry less of the total start closed. */
const LEAST_SHARE = 0.2;
const FIRST_DEPTH = 3;

export default function ReceiptPage() {
  const route = useRoute();
  const [target] = route.segments;
  const scenario = scenarioOf(route.params);
  const against = route.params.get("against") ?? "";
  const start = route.params.get("start");
  const open = (name: string, next: Scenario, than = against) =>
    go(
      href("receipt", [name], {
        ...paramsOf(next),
        against: than,
        // Another preset is another start.
        ...(start !== null && next.preset === scenario.preset ? { start } : {}),
      }),
    );
  if (!target) return <Start scenario={scenario} open={open} />;
  return (
    <Main
      key={target}
      target={target}
      scenario={scenario}
      against={against}
      start={startOf(scenario, start)}
      chosen={route.params.get("line")}
      open={open}
    />
  );
}

interface Opening {
  readonly open: (name: string, scenario: Scenario, against?: string) => void;
}

function Start(props: Opening & { readonly scenario: Scenario }) {
  const presets = useApi<readonly Preset[]>("presets");
  return (
    <>
      <PageHead title="Receipt" about="Pick a number to see what it is made of." />
      <VariablePicker
        label="Variable"
        placeholder="cost per token, step time, PUE"
        choose={(name) => props.open(name, props.scenario)}
      />
      <Shown of={presets} what="Loading scenarios">
        {(found) =>
          found.length === 0 ? (
            <Empty title="No scenarios">
              A preset gives the values that a number follows from.
            </Empty>
          ) : (
            <div className="stack receipt-start">
              {found.map((preset) => (
                <Card
                  key={preset.name}
                  title={preset.name.replaceAll("_", " ")}
                  about={preset.description}
                >
                  <ul className="link-list">
                    {preset.targets.map((one) => (
                      <li key={one.variable}>
                        <a href={href("receipt", [one.variable], { preset: preset.name })}>
                          {one.label}
                        </a>
                      </li>
                    ))}
                  </ul>
                </Card>
              ))}
            </div>
          )
        }
      </Shown>
    </>
  );
}

function Main(
  props: Opening & {
    readonly target: string;
    readonly scenario: Scenario;
    readonly against: string;
    readonly start: Scenario;
    readonly chosen: string | null;
  },
) {
  const { target, scenario, against, open } = props;
  const receipt = useApi<Receipt>(`receipt/${target}`, queryOf(scenario));
  // A changed scenario is compared with what it started from.
  const start = against ? { preset: against, includes: [], values: [] } : props.start;
  const base = start.preset && !isSame(start, scenario) ? start : null;
  const before = useApi<Receipt>(base ? `receipt/${target}` : null, queryOf(start));
  const known = [receipt, before].find((one) => one.state === "ready");
  const meaning = known?.state === "ready" ? known.data.lines[0]?.meaning : undefined;
  const last = scenario.values.at(-1);
  return (
    <>
      <PageHead
        title={capital(meaning ?? target)}
        name={`Receipt of ${target}`}
        about={<span className="mono">{target}</span>}
      >
        <a className="button" href={href("cone", [target], paramsOf(scenario))}>
          Open the cone
        </a>
        <CopyCommand command={`assay receipt ${target} ${optionsOf(scenario)}`.trim()} />
      </PageHead>
      <ScenarioBar
        scenario={scenario}
        change={(next) => open(target, next)}
        after={
          <Against
            chosen={against}
            choose={(than) => open(target, scenario, than)}
            own={scenario.preset}
          />
        }
      >
        <VariablePicker label="Variable" value={target} choose={(name) => open(name, scenario)} />
      </ScenarioBar>
      {receipt.state === "error" && last !== undefined && (
        <p className="receipt-undo">
          <Button onClick={() => open(target, withValue(scenario, last.split("=")[0]!, ""))}>
            Take back {last}
          </Button>
        </p>
      )}
      <Shown of={receipt} what={`Computing ${target}`}>
        {(found) => (
          <Body
            receipt={found}
            before={base && before.state === "ready" ? before.data : null}
            base={base}
            scenario={scenario}
            chosen={props.chosen}
            change={(name, text) => open(target, withValue(scenario, name, text))}
          />
        )}
      </Shown>
    </>
  );
}

function Against(props: {
  readonly chosen: string;
  readonly own: string;
  readonly choose: (name: string) => void;
}) {
  const presets = useApi<readonly Preset[]>("presets");
  const names = (presets.state === "error" ? [] : (presets.data ?? [])).map((one) => one.name);
  return (
    <Select
      label="Compared with"
      value={props.chosen}
      options={[
        ["", "the scenario before its changes"],
        ...names
          .filter((name) => name !== props.own)
          .map((name) => [name, name.replaceAll("_", " ")] as const),
      ]}
      choose={props.choose}
    />
  );
}

function Body(props: {
  readonly receipt: Receipt;
  readonly before: Receipt | null;
  readonly base: Scenario | null;
  readonly scenario: Scenario;
  readonly chosen: string | null;
  readonly change: (name: string, text: string) => void;
}) {
  const { receipt, before, scenario } = props;
  const [opened, setOpened] = useState<ReadonlySet<string>>(() =>
    openAtFirst(receipt, LEAST_SHARE, FIRST_DEPTH),
  );
  const [bySize, setBySize] = useState(true);
  const [selected, select] = useState<string | null>(props.chosen ?? receipt.target);
  const [changing, setChanging] = useState<string | null>(null);
  // A missing input stands in the tree, too: its form opens where it was asked for.
  const [giving, setGiving] = useState<string | null>(null);
  useEffect(() => {
    // A link to a line opens the way to it.
    const path = props.chosen ? pathTo(receipt, props.chosen) : null;
    if (path) setOpened((now) => new Set([...now, ...pathsAbove(path)]));
  }, [receipt, props.chosen]);
  const rows = useMemo(
    () => rowsOf(receipt, before, opened, bySize),
    [receipt, before, opened, bySize],
  );
  const lines = useMemo(() => new Map(receipt.lines.map((line) => [line.name, line])), [receipt]);
  const line = selected ? (lines.get(selected) ?? null) : null;

  function change(name: string, text: string): void {
    setChanging(null);
    setGiving(null);
    props.change(name, text);
  }

  function toggle(path: string): void {
    setOpened((now) => {
      const next = new Set(now);
      if (!next.delete(path)) next.add(path);
      return next;
    });
  }

  const total = lines.get(receipt.target);
  return (
    <div className="stack">
      <div className="receipt-total">
        <div>
          <div className="figure-label">Total</div>
          {total?.figure ? (
            <HeroText text={readable(total.figure)} />
          ) : (
            <div className="receipt-hero missing-names">
              {receipt.missing.length} {receipt.missing.length === 1 ? "input" : "inputs"} missing
            </div>
          )}
          {total?.interval && (
            <div className="muted number">{grouped(total.interval.replace(/^\(|\)$/g, ""))}</div>
          )}
        </div>
        <p className="muted small receipt-about">
          {receipt.lines.length.toLocaleString("en-US")} lines. A share is the per cent by which the
          total moves for one per cent of the line: terms of a sum divide the total, factors each
          carry all of it, divisors count negative.
        </p>
      </div>
      {props.base && before && scenario.preset && (
        <DifferenceCard
          target={receipt.target}
          base={props.base}
          scenario={scenario}
          before={before}
          after={receipt}
        />
      )}
      <Findings
        receipt={receipt}
        act={(name, unit) =>
          giving === name ? (
            <ChangeForm
              name={name}
              value=""
              unit={unit}
              action="Give it"
              apply={(text) => change(name, text)}
              close={() => setGiving(null)}
            />
          ) : (
            <Button
              kind="quiet"
              onClick={() => {
                setChanging(null);
                setGiving(name);
              }}
            >
              Give a value
            </Button>
          )
        }
      />
      <div className="receipt-columns">
        <Card
          title="Lines"
          actions={
            <>
              <Button kind="quiet" onClick={() => setBySize(!bySize)}>
                {bySize ? "In order of the equation" : "Largest first"}
              </Button>
              <Button kind="quiet" onClick={() => setOpened(openAtFirst(receipt, 0.05, 8))}>
                Open what carries 5 %
              </Button>
              <Button kind="quiet" onClick={() => setOpened(new Set())}>
                Close all
              </Button>
            </>
          }
        >
          <ReceiptTree
            rows={rows}
            isCompared={before !== null}
            selected={selected}
            changing={changing}
            select={select}
            toggle={toggle}
            startChange={setChanging}
            change={change}
          />
        </Card>
        {selected && (
          <aside className="card receipt-aside">
            <VariableDetail
              name={selected}
              line={line}
              scenario={scenario}
              validity={receipt.validity}
            />
          </aside>
        )}
      </div>
      <Degradations notes={receipt.degradations.filter((one) => !receipt.notes.includes(one))} />
    </div>
  );
}

/** Small losses of accuracy, for those who ask. */
function Degradations(props: { readonly notes: readonly string[] }) {
  if (props.notes.length === 0) return null;
  return (
    <details className="small muted">
      <summary>
        {props.notes.length} {props.notes.length === 1 ? "note" : "notes"} on the intervals
      </summary>
      <ul className="plain-list">
        {props.notes.map((note) => (
          <li key={note}>{note}</li>
        ))}
      </ul>
    </details>
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A figure whose number stands out before its unit. */
function HeroText({ text }: { readonly text: string }) {
  const at = text.indexOf(" ");
  return (
    <div className="receipt-hero number">
      {at < 0 ? text : text.slice(0, at)}
      {at >= 0 && <span className="figure-unit">{text.slice(at)}</span>}
    </div>
  );
}

import type { ReactNode } from "react";
import { useApi } from "../api/use-api";
import { Shown } from "../components/states";
import { Tag, type Tone } from "../components/tag";
import { Terms } from "../components/term";
import { grouped, readable } from "../design/readable";
import { href } from "../shell/route";
import { Formula } from "./formula";
import { paramsOf, type Scenario } from "./scenario";
import { percent } from "./share-text";
import type { Condition, Line, ShownVariable, Status } from "./types";
import { VariableName } from "./variable-name";

export const STATUS_TONE: Readonly<Record<Status, Tone>> = {
  computed: "plain",
  given: "accent",
  constant: "plain",
  missing: "missing",
  incomplete: "missing",
};

const STATUS_TEXT: Readonly<Record<Status, string>> = {
  computed: "computed",
  given: "given",
  constant: "constant",
  missing: "missing: no value",
  incomplete: "inputs missing below",
};

/** Everything about one variable: value, unit, equation, source, unit check, validity, gaps. */
export function VariableDetail(props: {
  readonly name: string;
  readonly line: Line | null;
  readonly scenario: Scenario;
  readonly validity?: readonly Condition[];
  readonly missing?: readonly string[];
  readonly children?: ReactNode;
}) {
  const { name, line, scenario } = props;
  const shown = useApi<ShownVariable>(`show/${name}`);
  const params = paramsOf(scenario);
  return (
    <section className="detail" aria-label={`About ${name}`}>
      <header>
        <h2 className="detail-name">
          <VariableName name={name} />
        </h2>
        {line && <Tag tone={STATUS_TONE[line.status]}>{STATUS_TEXT[line.status]}</Tag>}
      </header>
      {line && line.figure !== "" && (
        <p className="detail-value">
          <span className="number">{readable(line.figure)}</span>{" "}
          {line.interval && <span className="muted small number">{grouped(line.interval)}</span>}
        </p>
      )}
      {line && line.share !== null && (
        <p className="small muted">
          1 % more of it moves the total by {percent(line.share, 2).replace(" %", "")} %, over all
          paths.
        </p>
      )}
      {props.children}
      <Shown of={shown} what="Loading the equation">
        {(found) => (
          <Facts
            found={found}
            line={line}
            validity={props.validity ?? []}
            missing={props.missing ?? []}
          />
        )}
      </Shown>
      <nav className="detail-links" aria-label={`More about ${name}`}>
        <a href={href("receipt", [name], params)}>Receipt</a>
        <a href={href("cone", [name], params)}>Cone</a>
        {shown.state === "ready" && shown.data.role === "root" && (
          <a href={href("debt", [name], params)}>What would resolve it</a>
        )}
      </nav>
    </section>
  );
}

function Facts(props: {
  readonly found: ShownVariable;
  readonly line: Line | null;
  readonly validity: readonly Condition[];
  readonly missing: readonly string[];
}) {
  const { found, line } = props;
  const used = found.defined_by.find((one) => one.name === line?.relation) ?? found.defined_by[0];
  const others = found.defined_by.filter((one) => one !== used);
  return (
    <>
      <p>
        <Terms text={found.meaning} />
      </p>
      {used && (
        <>
          <Formula latex={used.latex} text={used.text} />
          {used.meaning && <p className="small muted">{used.meaning}</p>}
        </>
      )}
      <dl className="facts">
        <Fact title="Symbol and unit">
          <span className="mono">
            {found.symbol} [{found.display}]
          </span>
        </Fact>
        <Fact title="Layer">{found.scope}</Fact>
        {found.boundary && <Fact title="Boundary">{found.boundary}</Fact>}
        {used && (
          <Fact title="Unit check">
            <Tag tone={used.unit_check.agrees ? "good" : "bad"}>
              {used.unit_check.agrees ? "both sides agree" : "sides differ"}
            </Tag>{" "}
            <span className="small muted">
              {used.unit_check.agrees ? used.unit_check.unit : used.unit_check.reason}
            </span>
          </Fact>
        )}
        {used?.validity && (
          <Fact title="Valid where">
            <span className="mono small">{used.validity}</span>{" "}
            <Verdict of={used.name} among={props.validity} />
          </Fact>
        )}
        {found.block && <Fact title="Solved together in">{found.block}</Fact>}
        <Fact title="Source">{line?.source || used?.reference || found.reference}</Fact>
        {props.missing.length > 0 && (
          <Fact title="Missing inputs">
            <span className="missing-names mono small">{props.missing.join(", ")}</span>
          </Fact>
        )}
        {others.length > 0 && (
          <Fact title="Other relations">
            <span className="mono small">{others.map((one) => one.name).join(", ")}</span>
          </Fact>
        )}
      </dl>
    </>
  );
}

function Verdict(props: { readonly of: string; readonly among: readonly Condition[] }) {
  const verdict = props.among.find((one) => one.name === props.of);
  if (!verdict) return null;
  const tone: Tone = { true: "good", false: "bad", unknown: "warn" }[verdict.status] as Tone;
  const word = { true: "holds", false: "does not hold", unknown: "not known" }[verdict.status];
  return <Tag tone={tone}>{word}</Tag>;
}

function Fact(props: { readonly title: string; readonly children: ReactNode }) {
  return (
    <div>
      <dt>{props.title}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

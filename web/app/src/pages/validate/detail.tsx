// One figure: what was observed and predicted, the terms, what was assumed, and the source.

import { Button } from "../../components/button";
import { Card } from "../../components/card";
import { Share } from "../../components/share";
import { Empty } from "../../components/states";
import { Tag } from "../../components/tag";
import { percent, short } from "./format";
import type { Case, Row } from "./types";

export function Detail(props: {
  readonly row: Row | undefined;
  readonly name: string;
  readonly of: Case | undefined;
  readonly close: () => void;
}) {
  const { row } = props;
  if (!row) {
    return (
      <Empty title="There is no such figure">
        <code>{props.name}</code> <Button onClick={props.close}>Close</Button>
      </Empty>
    );
  }
  const terms = Object.entries(row.terms).sort(
    ([, one], [, other]) => Math.abs(other) - Math.abs(one),
  );
  const total = terms.reduce((sum, [, value]) => sum + Math.max(value, 0), 0);
  const error = (value: number | null) =>
    value === null
      ? "-"
      : `${value / row.observed >= 1 ? "+" : "-"}${percent(Math.abs(value / row.observed - 1))}`;
  return (
    <Card
      className="validate-detail"
      title={
        <>
          {row.case}{" "}
          <Tag tone={row.in_sample ? "plain" : "accent"}>
            {row.in_sample ? "in-sample" : "entered no fit"}
          </Tag>
        </>
      }
      about={`${row.quantity}, ${props.of?.accelerator ?? "accelerator not stated"}`}
      actions={<Button onClick={props.close}>Close</Button>}
    >
      <dl className="validate-summary" data-testid="detail">
        <Fact label="observed" value={`${short(row.observed)} ${row.unit}`} />
        <Fact
          label="predicted"
          value={row.predicted === null ? row.gap : `${short(row.predicted)} ${row.unit}`}
          more={
            row.lo === null || row.hi === null
              ? error(row.predicted)
              : `${error(row.predicted)}, 90 %: ${short(row.lo)} to ${short(row.hi)}`
          }
        />
        {row.in_sample && row.held_out !== null && (
          <Fact
            label="without its source"
            value={`${short(row.held_out)} ${row.unit}`}
            more={error(row.held_out)}
          />
        )}
        {Object.entries(row.baselines).map(([name, value]) => (
          <Fact
            key={name}
            label={`simpler rule: ${name}`}
            value={`${short(value)} ${row.unit}`}
            more={error(value)}
          />
        ))}
      </dl>
      <div className="validate-columns">
        {terms.length > 0 && (
          <section>
            <h3>Terms of the prediction</h3>
            <ul className="validate-terms">
              {terms.map(([name, value]) => (
                <li key={name}>
                  <span>{name}</span> <span className="number">{short(value)}</span>{" "}
                  {total > 0 && <Share value={Math.max(value, 0) / total} />}
                </li>
              ))}
            </ul>
          </section>
        )}
        {props.of && (
          <section>
            <h3>Inputs as published</h3>
            <dl className="validate-inputs">
              {Object.entries(props.of.inputs).map(([name, value]) => (
                <div key={name}>
                  <dt>{name}</dt>
                  <dd>{typeof value === "object" ? JSON.stringify(value) : String(value)}</dd>
                </div>
              ))}
            </dl>
          </section>
        )}
      </div>
      {row.notes.length > 0 && (
        <>
          <h3>Assumed</h3>
          <ul>
            {row.notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        </>
      )}
      {props.of && <Source of={props.of} />}
    </Card>
  );
}

function Source(props: { readonly of: Case }) {
  const { source, notes, tier } = props.of;
  const url = String(source["url"] ?? "");
  return (
    <>
      <h3>Source</h3>
      <p>
        {/^https?:/.test(url) ? (
          <a href={url} rel="noreferrer noopener">
            {String(source["title"] ?? url)}
          </a>
        ) : (
          String(source["title"] ?? "")
        )}
        {source["where"] ? `, ${String(source["where"])}` : ""}; tier {tier}
      </p>
      {notes && <p className="muted">{notes}</p>}
    </>
  );
}

function Fact(props: { readonly label: string; readonly value: string; readonly more?: string }) {
  return (
    <div className="figure">
      <dt className="figure-label">{props.label}</dt>
      <dd className="figure-value number">{props.value}</dd>
      {props.more && <dd className="figure-interval number">{props.more}</dd>}
    </div>
  );
}

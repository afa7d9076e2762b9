import { useApi } from "../../api/use-api";
import { Shown } from "../../components/states";
import { Tag } from "../../components/tag";
import { paramsOf, type Scenario } from "../../graph/scenario";
import type { Root } from "../../graph/types";
import { VariableName } from "../../graph/variable-name";
import { href } from "../../shell/route";

const BOUNDARIES: Readonly<Record<string, string>> = {
  decompose: "a further layer could compute it",
  primitive: "a datum of nature, a standard or a data sheet",
  scenario: "a choice that a scenario makes",
  "needs-source": "its value still needs a source",
  undeclared: "the model does not say why it ends here",
};

/** What it would take to resolve one root. */
export function RootPanel(props: {
  readonly name: string;
  readonly scenario: Scenario;
  /** The target that the page is about; empty for none. */
  readonly target: string;
}) {
  const root = useApi<Root>(`root/${props.name}`);
  return (
    <aside className="card debt-aside" aria-live="polite">
      <Shown of={root} what="Loading the root">
        {(found) => (
          <section aria-label={`About ${found.name}`} className="detail">
            <h2 className="detail-name">
              <VariableName name={found.name} />
            </h2>
            <p>
              {found.meaning} <span className="muted">[{found.unit}]</span>
            </p>
            <p className="small">
              <Tag tone={found.boundary === "needs-source" ? "missing" : "plain"}>
                {found.boundary}
              </Tag>{" "}
              {BOUNDARIES[found.boundary] ?? ""}
            </p>
            <p className="small">
              {found.dependents.toLocaleString("en-US")} relations and {found.targets.length}{" "}
              targets rest on it.
            </p>
            <h3>What it would take</h3>
            <ol className="steps">
              {found.steps.map((step) => (
                <li key={step}>{step}</li>
              ))}
            </ol>
            {found.presets.length > 0 && (
              <>
                <h3>Given today by</h3>
                <ul className="givers">
                  {found.presets.map((one) => (
                    <li key={one.preset}>
                      <span className="mono small">{one.preset}</span>: {one.text}{" "}
                      <Tag tone={one.kind === "assumed" ? "warn" : "plain"}>{one.kind}</Tag>
                      <span className="muted small"> {one.source}</span>
                    </li>
                  ))}
                </ul>
              </>
            )}
            {found.catalog.length > 0 && (
              <>
                <h3>In the catalog</h3>
                <ul className="givers">
                  {found.catalog.map((one) => (
                    <li key={one.group}>
                      {one.group}: {one.entries.length}{" "}
                      {one.entries.length === 1 ? "entry" : "entries"}{" "}
                      <span className="muted small">
                        {one.entries.slice(0, 6).join(", ")}
                        {one.entries.length > 6 ? ", ..." : ""}
                      </span>
                    </li>
                  ))}
                </ul>
              </>
            )}
            <nav className="detail-links" aria-label={`More about ${found.name}`}>
              {nearest(found.targets, props.target).map((target) => (
                <a
                  key={target}
                  href={href("cone", [target], {
                    ...paramsOf(props.scenario),
                    from: found.name,
                    node: found.name,
                  })}
                >
                  Path to {target}
                </a>
              ))}
            </nav>
          </section>
        )}
      </Shown>
    </aside>
  );
}

/** The page's own target, else a few of those that need the root. */
function nearest(targets: readonly string[], own: string): readonly string[] {
  return targets.includes(own) ? [own] : targets.slice(0, 3);
}

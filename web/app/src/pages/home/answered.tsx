// What was understood of a question, its answer, and where to go on.

import { useApi } from "../../api/use-api";
import { Card } from "../../components/card";
import { CopyCommand } from "../../components/copy";
import { Figure } from "../../components/figure";
import { Shown } from "../../components/states";
import { Tag } from "../../components/tag";
import { startText } from "../../graph/scenario";
import { PAGES } from "../../routes";
import { href } from "../../shell/route";
import type { Answer, Asked } from "./types";

function linkTo(page: string, target: string, answer: Answer | null): string {
  return href(page, [target], {
    // What is changed later is compared with the question's own scenario.
    ...(page === "receipt" && answer ? { start: startText(answer.with, answer.assign) } : {}),
    preset: answer?.preset,
    with: answer?.with.join(";"),
    set: answer?.assign.join(";"),
  });
}

export function Answered(props: { readonly question: string }) {
  const loaded = useApi<Asked>("ask", { question: props.question });
  return (
    <Card className="answered">
      <Shown of={loaded} what="Matching the question with variables and catalog">
        {(asked) => <Understanding asked={asked} />}
      </Shown>
    </Card>
  );
}

function Understanding({ asked }: { readonly asked: Asked }) {
  const first = asked.candidates[0];
  const { answer } = asked;
  const hasPage = (path: string) => PAGES.some((page) => page.path === path);
  return (
    <>
      <div className="understood" role="status">
        {first ? (
          <>
            <span className="muted">Understood</span> <Tag tone="accent">{first.meaning}</Tag>
            {asked.entries.map((one) => (
              <Tag key={one.entry}>{one.title}</Tag>
            ))}
          </>
        ) : (
          !asked.intent && <span>No variable matches this question.</span>
        )}
        {asked.not_understood.length > 0 && (
          <>
            <span className="muted">Not understood</span>
            {asked.not_understood.map((word) => (
              <Tag key={word} tone="warn">
                {word}
              </Tag>
            ))}
          </>
        )}
      </div>
      {answer?.text && <p className="answer-text">{answer.text}</p>}
      {answer && answer.rows.length > 0 && <Alternatives rows={answer.rows} />}
      {!first && answer?.problem && <p className="answer-text">{answer.problem}</p>}
      {first && (
        <div className="answer">
          {/* A verdict or a choice is its text: the figure behind it is not what was asked for. */}
          {!(answer?.verdict || answer?.choice) && (
            <Figure
              size="hero"
              label={<code>{first.name}</code>}
              quantity={
                answer && answer.value !== null
                  ? {
                      value: answer.value,
                      unit: answer.unit ?? "",
                      lo: answer.lo,
                      hi: answer.hi,
                      isPredicted: true,
                    }
                  : null
              }
              missing={
                answer?.missing.length
                  ? `${answer.missing.length} inputs are missing`
                  : (answer?.problem ?? "no value")
              }
              basis={answer && `predicted, in the scenario ${answer.preset.replaceAll("_", " ")}`}
            />
          )}
          <div className="answer-links">
            {hasPage("receipt") && (
              <a className="button primary" href={linkTo("receipt", first.name, answer)}>
                What sets it
              </a>
            )}
            {hasPage("cone") && (
              <a className="button" href={linkTo("cone", first.name, answer)}>
                Dependency cone
              </a>
            )}
            {hasPage("lab") && (
              <a
                className="button"
                href={href("lab", [], {
                  preset: answer?.preset,
                  with: answer?.with.join(";"),
                  set: answer?.assign.join(";"),
                })}
              >
                Change an assumption
              </a>
            )}
          </div>
        </div>
      )}
      {answer && <Conditions assumed={asked.assumed} violated={answer.violated} />}
      {asked.commands.map((command) => (
        <CopyCommand key={command} command={command} />
      ))}
      {asked.candidates.length > 1 && (
        <p className="small muted also">
          Or:{" "}
          {asked.candidates.slice(1).map((one, place) => (
            <span key={one.name}>
              {place > 0 && ", "}
              <a href={linkTo("receipt", one.name, answer)}>{one.meaning}</a>
            </span>
          ))}
        </p>
      )}
    </>
  );
}

/** Alternatives with their figures, the one that was asked for first: the best, or the worst. */
function Alternatives({ rows }: { readonly rows: Answer["rows"] }) {
  return (
    <dl className="alternatives">
      {rows.map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
}

/** What the question leaves open and was assumed, and what the scenario breaks nevertheless. */
function Conditions(props: {
  readonly assumed: readonly string[];
  readonly violated: readonly string[];
}) {
  if (!props.assumed.length && !props.violated.length) return null;
  return (
    <ul className="conditions">
      {props.assumed.map((line) => (
        <li key={line}>
          <Tag tone="accent">assumed</Tag> {line}
        </li>
      ))}
      {props.violated.map((meaning) => (
        <li key={meaning}>
          <Tag tone="bad">does not hold</Tag> {meaning}
        </li>
      ))}
    </ul>
  );
}

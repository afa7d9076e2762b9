// Home: a question in words, headline figures, and what ran last.

import { useEffect, useState } from "react";
import { Button } from "../../components/button";
import { PageHead } from "../../components/page-head";
import { go, href, useRoute } from "../../shell/route";
import { Answered } from "./answered";
import { HeadlineTargets } from "./headline-targets";
import "./home.css";
import { RecentRuns } from "./recent-runs";

const EXAMPLES = [
  "What sets cost per token of Llama-3-70B on H200?",
  "Time to first token of Llama 3 8B",
  "Emissions per output token of gpt-oss-120b on B200",
  "MFU of training",
];

export default function Home() {
  const { params } = useRoute();
  const asked = params.get("q") ?? "";
  const [text, setText] = useState(asked);
  useEffect(() => setText(asked), [asked]);
  const ask = (question: string) => {
    if (question.trim()) go(href("", [], { q: question.trim() }));
  };
  return (
    <>
      <PageHead title="What is that number made of?" name="Home" />
      <form
        className="ask"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          ask(text);
        }}
      >
        <input
          className="input ask-input"
          aria-label="Your question"
          placeholder={EXAMPLES[0]}
          value={text}
          maxLength={400}
          onChange={(event) => setText(event.target.value)}
        />
        <Button type="submit" kind="primary" className="ask-button">
          Ask
        </Button>
      </form>
      {asked ? (
        <Answered question={asked} />
      ) : (
        <ul className="chips" aria-label="Examples">
          {EXAMPLES.map((example) => (
            <li key={example}>
              <a className="chip" href={href("", [], { q: example })}>
                {example}
              </a>
            </li>
          ))}
        </ul>
      )}
      <HeadlineTargets />
      <RecentRuns />
    </>
  );
}

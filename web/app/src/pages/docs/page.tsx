// The documentation of this release, and the glossary with a search.

import { useMemo, useState } from "react";
import { useApi } from "../../api/use-api";
import { Markdown } from "../../components/markdown";
import { PageHead } from "../../components/page-head";
import { Empty, Shown } from "../../components/states";
import { href, useRoute } from "../../shell/route";
import "./docs.css";

interface Title {
  readonly name: string;
  readonly title: string;
}

interface Term {
  readonly term: string;
  readonly meaning: string;
  readonly file: string;
  readonly symbol: string;
}

const SECTIONS: readonly (readonly [folder: string, title: string])[] = [
  ["guides", "Guides"],
  ["concepts", "Concepts"],
  ["reference", "Reference"],
  ["design", "Design"],
  ["examples", "Examples"],
];

/** The place of a link between documents: "../design/engine.md" in guides/x is design/engine. */
function resolved(from: string, target: string): string | null {
  if (/^https?:/.test(target)) return target;
  if (target.startsWith("#")) return null;
  const [path = ""] = target.split("#");
  if (!path.endsWith(".md")) return null;
  const parts = from.split("/").slice(0, -1);
  for (const part of path.slice(0, -3).split("/")) {
    if (part === "..") parts.pop();
    else if (part !== ".") parts.push(part);
  }
  return href("docs", parts);
}

export default function Docs() {
  const { segments } = useRoute();
  const name = segments.join("/");
  const list = useApi<readonly Title[]>("documents");
  return (
    <Shown of={list}>
      {(documents) =>
        documents.length ? (
          <div className="docs">
            <nav className="docs-list" aria-label="Documents">
              <a href={href("docs")} aria-current={name === "" ? "page" : undefined}>
                Glossary
              </a>
              {SECTIONS.map(([folder, title]) => (
                <Section
                  key={folder}
                  folder={folder}
                  title={title}
                  all={documents}
                  current={name}
                />
              ))}
            </nav>
            <article className="docs-text">
              {name ? <Document key={name} name={name} /> : <Glossary />}
            </article>
          </div>
        ) : (
          <Empty title="No documentation">This installation was built without it.</Empty>
        )
      }
    </Shown>
  );
}

function Section(props: {
  readonly folder: string;
  readonly title: string;
  readonly all: readonly Title[];
  readonly current: string;
}) {
  const own = props.all.filter((one) => one.name.startsWith(`${props.folder}/`));
  if (!own.length) return null;
  return (
    <details open={props.current.startsWith(`${props.folder}/`) || props.folder === "guides"}>
      <summary>{props.title}</summary>
      <ul>
        {own.map((one) => (
          <li key={one.name}>
            <a
              href={href("docs", one.name.split("/"))}
              aria-current={one.name === props.current ? "page" : undefined}
            >
              {one.title.replaceAll("`", "")}
            </a>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Document(props: { readonly name: string }) {
  const loaded = useApi<Title & { readonly text: string }>(`documents/${props.name}`);
  return (
    <Shown of={loaded}>
      {(document) => (
        <>
          <PageHead title={document.title.replaceAll("`", "")} />
          <Markdown
            text={document.text.replace(/^# .*\n/, "")}
            links={(target) => resolved(props.name, target)}
          />
        </>
      )}
    </Shown>
  );
}

function Glossary() {
  const loaded = useApi<readonly Term[]>("glossary");
  const [sought, seek] = useState("");
  const words = useMemo(() => sought.toLowerCase().split(/\s+/).filter(Boolean), [sought]);
  return (
    <>
      <PageHead
        title="Glossary"
        about="The terms of the field, and the file and symbol where each lives here."
      />
      <input
        className="input glossary-search"
        type="search"
        aria-label="Search the glossary"
        placeholder="Search: MFU, KV cache, confidence"
        value={sought}
        onChange={(event) => seek(event.target.value)}
      />
      <Shown of={loaded}>
        {(terms) => {
          const found = terms.filter((one) =>
            words.every((word) => `${one.term} ${one.meaning}`.toLowerCase().includes(word)),
          );
          if (!found.length) return <Empty title={`No term has "${sought}"`} />;
          return (
            <dl className="glossary">
              {found.map((one) => (
                <div key={one.term}>
                  <dt>{one.term}</dt>
                  <dd>
                    {one.meaning}
                    <div className="muted small">
                      <code>{one.symbol}</code> in <code>{one.file}</code>
                    </div>
                  </dd>
                </div>
              ))}
            </dl>
          );
        }}
      </Shown>
    </>
  );
}

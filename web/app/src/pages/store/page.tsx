// Items of the team's store: found by terms, as on the command line.

import { type FormEvent, useEffect, useState } from "react";
import { useApi } from "../../api/use-api";
import { Button } from "../../components/button";
import { Card } from "../../components/card";
import { PageHead } from "../../components/page-head";
import { Empty, Shown } from "../../components/states";
import { Toolbar } from "../../components/toolbar";
import { CopyCommand } from "../../graph/copy-button";
import { go, href, useRoute } from "../../shell/route";
import { ItemTable } from "./item-table";
import { meta } from "./meta";
import type { StoredItems, StorePlace } from "./types";

const MOST = 200;

export default function StorePage() {
  const terms = useRoute().params.get("terms") ?? "";
  const place = useApi<StorePlace>("store/place");
  return (
    <>
      <PageHead title={meta.title} about={meta.about}>
        <CopyCommand command={terms ? `assay store find ${terms}` : "assay store list"} />
      </PageHead>
      <Shown of={place} what="Looking for a store">
        {({ place: store, variable }) =>
          store ? (
            <Items terms={terms} store={store} />
          ) : (
            <Empty title="No store">
              Start <code>assay ui</code> with <code>{variable}</code> set to a folder or to
              s3://BUCKET/PREFIX; <code>assay store init</code> makes a store there.
            </Empty>
          )
        }
      </Shown>
    </>
  );
}

function Items(props: { readonly terms: string; readonly store: string }) {
  const { terms } = props;
  const [text, setText] = useState(terms);
  useEffect(() => setText(terms), [terms]);
  const items = useApi<StoredItems>("store", { terms, limit: MOST });

  function look(event: FormEvent): void {
    event.preventDefault();
    go(href("store", [], { terms: text.trim() }));
  }

  return (
    <div className="stack">
      <form onSubmit={look}>
        <Toolbar label="Find items">
          <input
            className="input"
            type="search"
            aria-label="Terms, all of which must hold"
            placeholder="kind=run model=llama verdict=improved tag=nightly since=7d"
            size={56}
            maxLength={400}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <Button type="submit">Find</Button>
        </Toolbar>
      </form>
      <Shown of={items} what="Reading the index">
        {(found) =>
          found.items.length ? (
            <Card>
              <ItemTable items={found.items} />
              <p className="small muted">
                {found.items.length.toLocaleString("en-US")} of{" "}
                {found.total.toLocaleString("en-US")} items of {props.store}.
              </p>
            </Card>
          ) : (
            <Empty title={terms ? "Nothing matches" : "The store is empty"}>
              {terms ? (
                "Fewer terms find more."
              ) : (
                <>
                  <code>assay store push latest</code> puts the last run into it.
                </>
              )}
            </Empty>
          )
        }
      </Shown>
    </div>
  );
}

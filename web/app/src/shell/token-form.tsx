// What stands in the place of the pages where the server refuses the token.

import { useState } from "react";
import { setToken } from "../api/session";
import { Button } from "../components/button";

/** The token of a text: the text itself, or that of the whole link that was pasted. */
export function tokenOf(text: string): string {
  const link = /[#&]token=([^&\s]+)/.exec(text);
  return link?.[1] ? decodeURIComponent(link[1]) : text.trim();
}

export function TokenForm() {
  const [text, setText] = useState("");
  return (
    <form
      className="token-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (tokenOf(text)) setToken(tokenOf(text));
      }}
    >
      <h1>These pages need their token</h1>
      <p role="alert">The token is missing or wrong.</p>
      <p className="muted">
        Hint: open the link that <code>assay ui</code> printed, or paste it here. Each start of{" "}
        <code>assay ui</code> makes a new token unless <code>--token</code> names one.
      </p>
      <label className="field">
        <span className="field-label">Token, or the whole link</span>
        <input
          className="input"
          type="password"
          autoComplete="off"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      </label>
      <Button type="submit" kind="primary" disabled={!tokenOf(text)}>
        Continue
      </Button>
    </form>
  );
}

// What a page shows instead of data: nothing yet, nothing there, or why not.

import type { ReactNode } from "react";
import { ApiError } from "../api/client";
import type { Loaded } from "../api/use-api";
import { Button } from "./button";

export function Loading(props: { readonly what?: string }) {
  return (
    <div className="state loading" role="status">
      <span className="loading-bar" aria-hidden="true" />
      <span className="muted">{props.what ?? "Loading"}</span>
    </div>
  );
}

/** A place where there is nothing yet, and how there will be something. */
export function Empty(props: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="state empty">
      <h2>{props.title}</h2>
      {props.children && <div className="muted">{props.children}</div>}
    </div>
  );
}

export function ErrorState(props: {
  readonly error: Error;
  readonly title?: string;
  readonly retry?: () => void;
}) {
  const hint = props.error instanceof ApiError ? props.error.hint : null;
  return (
    <div className="state error" role="alert">
      <h2>{props.title ?? "This cannot be shown"}</h2>
      <p>{props.error.message}</p>
      {hint && <p className="muted">Hint: {hint}</p>}
      {props.retry && <Button onClick={props.retry}>Try again</Button>}
    </div>
  );
}

/** One of the three states, or what `children` makes of the data. */
export function Shown<T>(props: {
  readonly of: Loaded<T> & { readonly reload?: () => void };
  readonly what?: string;
  readonly children: (data: T) => ReactNode;
}) {
  const { of: loaded } = props;
  if (loaded.state === "error") {
    return <ErrorState error={loaded.error} {...(loaded.reload ? { retry: loaded.reload } : {})} />;
  }
  if (loaded.data === null) return <Loading {...(props.what ? { what: props.what } : {})} />;
  return (
    <div
      className={loaded.state === "loading" ? "stale" : undefined}
      aria-busy={loaded.state === "loading"}
    >
      {props.children(loaded.data)}
    </div>
  );
}

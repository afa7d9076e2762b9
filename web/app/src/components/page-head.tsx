import { type ReactNode, useEffect } from "react";

/** The title of a page, a sentence about it, and what can be done with all of it. */
export function PageHead(props: {
  readonly title: ReactNode;
  readonly about?: ReactNode;
  readonly children?: ReactNode;
  /** The title of the window where `title` is not text. */
  readonly name?: string;
}) {
  const name = props.name ?? (typeof props.title === "string" ? props.title : "");
  useEffect(() => {
    document.title = name ? `${name} - Assay` : "Assay";
  }, [name]);
  return (
    <header className="page-head">
      <div>
        <h1>{props.title}</h1>
        {props.about && <p className="muted">{props.about}</p>}
      </div>
      {props.children && <div className="page-actions">{props.children}</div>}
    </header>
  );
}

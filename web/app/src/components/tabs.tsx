import { type KeyboardEvent, type ReactNode, useId, useRef } from "react";

export interface Tab {
  readonly name: string;
  readonly title: ReactNode;
}

/** Tabs in the pattern of WAI-ARIA: arrows move, one panel is shown. */
export function Tabs(props: {
  readonly label: string;
  readonly tabs: readonly Tab[];
  readonly chosen: string;
  readonly choose: (name: string) => void;
  readonly children: ReactNode;
}) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const at = props.tabs.findIndex((tab) => tab.name === props.chosen);

  function key(event: KeyboardEvent): void {
    const last = props.tabs.length - 1;
    const next = {
      ArrowRight: at === last ? 0 : at + 1,
      ArrowLeft: at <= 0 ? last : at - 1,
      Home: 0,
      End: last,
    }[event.key];
    const tab = next === undefined ? undefined : props.tabs[next];
    if (!tab) return;
    event.preventDefault();
    props.choose(tab.name);
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[next!]?.focus();
  }

  return (
    <div className="tabs">
      <div className="tab-list" role="tablist" aria-label={props.label} ref={list} onKeyDown={key}>
        {props.tabs.map((tab) => (
          <button
            key={tab.name}
            type="button"
            role="tab"
            id={`${id}-${tab.name}`}
            aria-selected={tab.name === props.chosen}
            aria-controls={`${id}-panel`}
            tabIndex={tab.name === props.chosen ? 0 : -1}
            onClick={() => props.choose(tab.name)}
          >
            {tab.title}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${props.chosen}`}>
        {props.children}
      </div>
    </div>
  );
}

import { useEffect, useRef, useState } from "react";
import { Button } from "../components/button";

/** Longer formulas are shown as text first: setting them takes long, and few read them. */
const LONGEST = 1500;

/** An equation, set by KaTeX; as text where it is very long or cannot be set. */
export function Formula(props: { readonly latex: string; readonly text: string }) {
  const place = useRef<HTMLDivElement>(null);
  const [isAsked, ask] = useState(false);
  const [isSet, setSet] = useState(false);
  const isLong = props.latex.length > LONGEST && !isAsked;
  // biome-ignore lint/correctness/useExhaustiveDependencies: another formula is asked for anew.
  useEffect(() => ask(false), [props.latex]);
  useEffect(() => {
    let isGone = false;
    setSet(false);
    if (isLong) return;
    Promise.all([import("katex"), import("./katex-style")]).then(([katex]) => {
      if (isGone || !place.current) return;
      // Symbols come from declarations: no commands that load or link anything are trusted.
      katex.default.render(props.latex, place.current, {
        displayMode: true,
        throwOnError: false,
        trust: false,
        strict: "ignore",
        maxExpand: 1000,
        output: "htmlAndMathml",
      });
      setSet(true);
    });
    return () => {
      isGone = true;
    };
  }, [props.latex, isLong]);
  return (
    <div className="formula">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard. */}
      <div ref={place} className="formula-set" hidden={isLong || !isSet} tabIndex={0} />
      {(isLong || !isSet) && <pre className="formula-text">{props.text}</pre>}
      {isLong && (
        <Button kind="quiet" onClick={() => ask(true)}>
          Typeset this formula ({props.latex.length.toLocaleString("en-US")} characters)
        </Button>
      )}
    </div>
  );
}

// Answers of an exported site. Browsers refuse to fetch files, so each answer is a script that
// hands its data over: __assayAnswer("key", {...}).

declare global {
  interface Window {
    __ASSAY_STATIC__?: { readonly data: string; readonly pages: readonly string[] };
    __assayAnswer?: (key: string, data: unknown) => void;
  }
}

const answers = new Map<string, unknown>();
const waiting = new Map<string, Promise<unknown>>();

export function isStatic(): boolean {
  return window.__ASSAY_STATIC__ !== undefined;
}

/** Whether a page is part of this site. */
export function hasPage(name: string): boolean {
  return window.__ASSAY_STATIC__?.pages.includes(name) ?? true;
}

/** The file of an answer: characters that are unusual in names are written as ~hex. */
export function fileOf(key: string): string {
  const name = key.replace(
    /[^A-Za-z0-9._/-]/g,
    (one) => `~${one.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
  return `${window.__ASSAY_STATIC__?.data ?? "data"}/${name}.js`;
}

export function staticAnswer(key: string): Promise<unknown> {
  if (answers.has(key)) return Promise.resolve(answers.get(key));
  const known = waiting.get(key);
  if (known) return known;
  window.__assayAnswer = (name, data) => answers.set(name, data);
  const answer = new Promise<unknown>((resolve, reject) => {
    const script = document.createElement("script");
    script.src = fileOf(key);
    script.onload = () => {
      script.remove();
      if (answers.has(key)) resolve(answers.get(key));
      else reject(new Error(`${script.src} does not hold ${key}`));
    };
    script.onerror = () => {
      script.remove();
      waiting.delete(key);
      reject(new Error(`this site was exported without ${key}`));
    };
    document.head.append(script);
  });
  waiting.set(key, answer);
  return answer;
}

// Search over all sections. The index is a script, since pages that are opened from a file may not fetch.
"use strict";
(() => {
  const root = document.documentElement.dataset.root;
  const box = document.getElementById("search");
  const list = document.getElementById("results");
  const state = document.getElementById("state");
  const contents = document.getElementById("contents");
  const MOST = 20;
  // Who searches wants to do something: guides come before what explains them, the changelog last.
  const FOLDERS = [["docs/guides/", 2], ["docs/design/", 0.7], ["CHANGELOG", 0.3]];
  let wanted = false;

  const load = () => {
    if (wanted) return;
    wanted = true;
    const script = document.createElement("script");
    script.src = `${root}search-index.js`;
    script.onload = search;
    script.onerror = () => { state.textContent = "The search index could not be loaded."; };
    document.head.append(script);
  };

  // Every word must begin a word of the section; titles count more than headings, headings more than text.
  const score = (section, words) => {
    let sum = 0;
    for (const word of words) {
      const places = [[section.page, 20], [section.title, 8], [section.text, 1]];
      const weight = places.reduce((best, [text, value]) => {
        const at = ` ${text.toLowerCase()}`.search(new RegExp(`[^\\p{L}\\p{N}]${word}`, "u"));
        return at < 0 ? best : Math.max(best, value);
      }, 0);
      if (weight === 0) return 0;
      sum += weight;
    }
    const folder = FOLDERS.find(([start]) => section.address.startsWith(start));
    return sum * (folder ? folder[1] : 1);
  };

  const excerpt = (text, word) => {
    const at = Math.max(0, text.toLowerCase().indexOf(word) - 40);
    return text.slice(at, at + 140);
  };

  function search() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean)
      .map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    list.replaceChildren();
    contents.hidden = words.length > 0;
    state.textContent = "";
    const index = window.SEARCH_INDEX;
    if (words.length === 0 || index === undefined) return;
    const hits = index.map((section) => ({ section, value: score(section, words) }))
      .filter((hit) => hit.value > 0).sort((a, b) => b.value - a.value);
    state.textContent = hits.length === 0 ? `Nothing has "${box.value}".`
      : `${hits.length} sections${hits.length > MOST ? `, the first ${MOST}` : ""}`;
    for (const { section } of hits.slice(0, MOST)) {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = `${root}${section.address}`;
      link.textContent = section.page === section.title ? section.page : `${section.page}: ${section.title}`;
      const text = document.createElement("small");
      text.textContent = excerpt(section.text, box.value.toLowerCase().split(/\s+/)[0]);
      item.append(link, text);
      list.append(item);
    }
  }

  box.addEventListener("focus", load);
  box.addEventListener("input", () => { load(); search(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== box) { event.preventDefault(); box.focus(); }
    if (event.key === "Escape" && document.activeElement === box) { box.value = ""; search(); }
  });
})();

// The styles and fonts of KaTeX, loaded with the first formula.
import "katex/dist/katex.css";

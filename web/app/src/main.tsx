// The program of the pages.

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { startSession } from "./api/session";
import { startTheme } from "./design/theme";
import "./design/tokens.css";
import "./design/base.css";
import "./components/components.css";
import "./shell/shell.css";
import { App } from "./shell/app";

startTheme();
startSession();
createRoot(document.getElementById("app")!).render(
  <StrictMode>
    <App />
  </StrictMode>,
);

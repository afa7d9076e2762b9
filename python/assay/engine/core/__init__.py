"""One request from prompt to tokens: scheduling, the step loop, sampling and outputs."""

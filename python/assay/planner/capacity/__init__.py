"""How many GPUs a traffic needs within a service level: `plan_serving`, and `plan_training` for a run."""

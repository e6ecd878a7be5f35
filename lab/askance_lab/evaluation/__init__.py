"""How wrong a hypothesis is: by a formula, point by point, or on examples that the learner has not seen."""

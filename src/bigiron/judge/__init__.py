"""The judgement of a reported regression: coherence, locks, instructions or neither, with the evidence."""

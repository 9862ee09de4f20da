"""System calls as a symbolic model: which of them commute, and the situations that show it."""

"""Play many games of any AEC environment side by side, slow steps in the background."""

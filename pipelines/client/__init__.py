"""The notebook's and the script's posttrain: `import posttrain` is this room, and nothing in the house imports it."""

"""What `posttrain new` starts a recipe from, and how it is written into a folder."""

"""The guides, the tables in them that are generated, and the site that shows them."""

"""What a DAG is drawn from: plain data of a recipe, made once and kept by the content of all that it depends on."""

"""What a person sees of a recipe in Airflow, in a real browser; run by `make test-airflow-ui`."""

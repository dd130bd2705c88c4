"""The Airflow engine: a recipe as a DAG, its stages as tasks."""

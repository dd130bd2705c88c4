"""A local Airflow: its services and their supervisor."""

"""Text similarity: shingles and near neighbours."""

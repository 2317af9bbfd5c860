"""What runs found: records, comparisons, pictures, tables, one page."""
